"""Log decisions in an environment: ``tfagents-batch collect``."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Sequence
from pathlib import Path

from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import command_line
from tfagents_batch.training.log import console


@dataclasses.dataclass(frozen=True)
class CollectCommand(command_line.PlayCommand):
    """Flags of this script."""

    logdir: str | None = option(
        None, "run folder, whose agent acts; none: uniform actions"
    )
    epsilon: float = option(
        0.0, "probability of a uniform action instead", least=0, most=1
    )
    rows: int = option(10_000, "number of decisions", least=1)
    output: str = option("rows", "folder of the rows, JSON lines")
    num_envs: int = option(8, "environments in the batch", least=1)
    ds: str = option("", "partition of the rows; empty: the day, in UTC")


def main(argv: Sequence[str]) -> int:
    """Parse flags, collect, and print the folder as the last line."""
    command = command_line.parse(argv, CollectCommand)
    if command.logdir is None:
        _check_uniform(command)
    else:
        command_line.check_run(command.logdir, command.checkpoint)
    prefix = _prefix(command)
    command_line.import_tensorflow()
    # Imported here because TensorFlow takes seconds and reads environment variables.
    from tfagents_batch.envs.make import make_env
    from tfagents_batch.logged import collecting
    from tfagents_batch.offline.writer import RowLogger
    from tfagents_batch.training import playing

    with contextlib.ExitStack() as stack:
        if command.logdir is None:
            made = command.env, command.num_envs
            own = {"env_kwargs": command.env_kwargs, "wrappers": command.wrappers or ()}
            env = stack.enter_context(make_env(*made, **own))
            collecting.check(env.spec)
            decide = collecting.uniform(env.spec, command.seed)
        else:
            played = command.env, command.env_kwargs, command.wrappers, None
            own = *played, command.algorithm, command.checkpoint
            trained = playing.trained(command.logdir, *own)
            trained.require_env()
            env = stack.enter_context(playing.environment(trained, command.num_envs))
            collecting.check(env.spec)
            loaded = playing.loaded(trained, env.spec)
            algorithm, step = stack.enter_context(loaded)
            decide = collecting.of_policy(
                algorithm.policy, env.spec, step, command.epsilon, command.seed
            )
        mode = "discrete" if hasattr(env.spec.action_space, "n") else "continuous"
        ds = command.ds or datetime.datetime.now(datetime.UTC).date().isoformat()
        logger = RowLogger(command.output, mode, prefix=prefix)
        stack.enter_context(logger)
        say = stack.enter_context(console.doing("collecting"))
        episodes = collecting.collect(
            *(env, decide, logger, command.rows, command.seed, ds),
            progress=lambda made: say(f"collecting: {made:,} of {command.rows:,} rows"),
        )
    command_line.say(f"{command.rows:,} rows of {episodes:,} episodes")
    command_line.show(command.output)
    return 0


def _check_uniform(command: CollectCommand) -> None:
    """Check the flags of uniform actions, for which there is no agent."""
    if not command.env:
        raise UserError("no environment is given; pass --env, such as CartPole-v1")
    for name in ("epsilon", "checkpoint", "algorithm"):
        value = getattr(command, name)
        if value != getattr(CollectCommand, name):
            raise UserError(
                f"--{name} is {value}, which means nothing for uniform actions; leave "
                "it out, or pass the folder of a run as --logdir"
            )


def _prefix(command: CollectCommand) -> str:
    """Return the beginning of the names of the files, which has the seed.

    Files that begin so are refused: their episodes have the same mdp_id.
    """
    prefix = f"rows-s{command.seed}"
    folder = Path(command.output).expanduser()
    if any(any(folder.glob(f"{hidden}{prefix}-*")) for hidden in ("", ".")):
        raise UserError(
            f"{folder} has rows of seed {command.seed} already, and other rows would "
            "have the same mdp_id; pass another --seed or --output"
        )
    return prefix
