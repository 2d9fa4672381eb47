"""Search for good settings with many trainings: ``tfagents-batch sweep --search=...``.

Every flag of ``train`` can be given, or searched with ``--search=<flag>=<values>``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from tfagents_batch.scripts import command_line, train
from tfagents_batch.training.log import status


def main(argv: Sequence[str]) -> int:
    """Parse flags, run trials, and print a table and the path of the results."""
    from tfagents_batch.config import HELP, check, option, peek, replace
    from tfagents_batch.distribute import ray_session
    from tfagents_batch.distribute.sweep import search, storage
    from tfagents_batch.errors import TrainingError, UserError

    texts, given = search.take(argv)
    logdir = peek(given, "logdir") or ""
    if not HELP.intersection(argv):  # errors that need no TensorFlow come at once
        storage.require_optuna()
        if not logdir:
            raise UserError("no folder is given; pass --logdir=<folder of the sweep>")
        if peek(given, "on") == "ray":
            ray_session.require()
        if (address := peek(given, "address")) not in (None, "auto"):
            ray_session.check_address(address)
    command_line.import_tensorflow()
    from tfagents_batch import api
    from tfagents_batch.configs import named, searches
    from tfagents_batch.distribute.sweep import flags, local, loop, on_ray, results
    from tfagents_batch.distribute.sweep.plan import Plan

    @dataclasses.dataclass(frozen=True)
    class Command:
        """Flags of this script."""

        logdir: str | None = option(
            None, "folder of the sweep; required. An interrupted sweep goes on there"
        )
        search: str | None = option(
            None,
            "a flag and its values, such as num_envs=8,16; may be passed several times",
            group="sweep",
        )
        trials: int = option(20, "number of trials in the end", least=1, group="sweep")
        jobs: int = option(
            1, "trials at the same time", least=1, most=1024, group="sweep"
        )
        on: Literal["processes", "ray"] = option(
            "processes",
            "where trials run: as processes of this machine, or on Ray",
            group="sweep",
        )
        address: str | None = option(
            None,
            "host:port of Ray's head, or auto; none: Ray is started here",
            group="sweep",
        )
        metric: str = option(
            "eval/return_mean", "metric of the trials' value", group="sweep"
        )
        goal: Literal["max", "min"] = option(
            "max", "whether large values are better", group="sweep"
        )
        value: Literal["last", "best"] = option(
            "last",
            "value of a training: its last one of the metric, or its best",
            group="sweep",
        )
        seeds_per_trial: int = option(
            1,
            "trainings per trial, from --seed on; their mean counts",
            least=1,
            group="sweep",
        )
        prune: bool = option(
            True, "stop trials that are worse than the median", group="sweep"
        )
        config: str | None = option(None, "settings to start from, as of train")
        data: str | None = option(None, "folder of a timeline, as of train")
        init_from: str | None = option(
            None, "run to start from, as of train", group="checkpoint"
        )
        init_checkpoint: str | None = option(
            None, "its checkpoint, as of train", group="checkpoint"
        )
        quiet: bool = option(False, "the same as --progress=false", group="log")
        debug: bool = option(False, "print tracebacks")

    variants = flags.variants(given, texts, train.defaults)
    parsed = command_line.flags(given, (Command, ""), *variants[0].parts)
    if parsed is None:
        return 0
    command = check(replace(Command(), parsed.pop(0)), "--")
    if command.address is not None and command.on != "ray":
        raise UserError(
            f"--address is {command.address}, but trials run as processes of this "
            "machine; pass --on=ray, or leave --address out"
        )
    passed = {name: getattr(command, name) for name in flags.PASSED}
    names = "metric", "goal", "value", "seeds_per_trial"
    rows, algorithm = command.data is not None, variants[0].base.algorithm
    texts = texts or searches.usual(algorithm, rows)
    plan = Plan(
        flags.fixed(passed, variants[0], parsed),
        flags.space(texts, variants, given),
        seed=parsed[0].get("seed", variants[0].base.seed),
        **{name: getattr(command, name) for name in names},
    )

    def resolve(algorithm, env, config, settings, options):  # checks import the names
        if isinstance(config, str):
            named.require(named.find(config, algorithm), {"env": env} | options)
        return api.resolve(algorithm, env, config, settings, options)

    flags.check(plan, variants, resolve)
    folder = Path(logdir).expanduser()
    shown = parsed[0].get("progress", True) and not command.quiet
    with (
        storage.opened(folder, plan, command.prune) as study,
        status.doing(f"{command.trials} trials") as now,
    ):

        def report(trial: Any) -> None:
            found = results.rows(study, plan)
            results.write(folder / results.FILE, found)
            now(f"{len(found)} of {command.trials} trials ended")
            if shown:
                command_line.say(results.line(trial.number, found, command.trials))

        try:
            with (
                contextlib.nullcontext(local.launchers(command.jobs))
                if command.on == "processes"
                else on_ray.launchers(command.jobs, command.address)
            ) as jobs:
                loop.run(plan, study, folder, command.trials, jobs, report)
        except KeyboardInterrupt:
            command_line.say("the same command goes on with the sweep")
            raise
        found = results.rows(study, plan)
        results.write(folder / results.FILE, found)
    command_line.show(f"{results.table(found)}\n\n{results.summary(found)}")
    if found[0].state != "complete":
        raise TrainingError(
            f"no trial completed; one of them ended with: {found[-1].error}; see "
            f"{results.FILE} and the files output.txt in {folder}"
        )
    command_line.show(f"train the best again: {results.command(plan, found[0])}")
    _draw(folder, plan, found)
    command_line.show(str(folder / results.FILE))
    return 0


def _draw(folder: Path, plan: Any, found: Sequence[Any]) -> None:
    """Draw the figure, if matplotlib is installed."""
    from tfagents_batch.distribute.sweep import figure
    from tfagents_batch.errors import UserError

    try:
        figure.draw(folder / figure.FILE, plan, found)
        command_line.show(str(folder / figure.FILE))
    except UserError as error:
        command_line.say(f"no figure: {error}")


if __name__ == "__main__":
    sys.exit(command_line.run(main))
