"""Train an agent: ``tfagents-batch train --config=cartpole``."""

from __future__ import annotations

import dataclasses
import json
import shlex
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from tfagents_batch import configs
from tfagents_batch.config import option, replace
from tfagents_batch.errors import UserError
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.reading import minari_rows
from tfagents_batch.scripts import command_line
from tfagents_batch.settings import parsing
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.run_folder import runs
from tfagents_batch.training.signals import exit_status

# Flags that are arguments of ``api.train`` if they are given.
_GIVEN = ("resume", "init_from", "init_checkpoint", "profile")

_VALUES = (
    "dqn learns the values of the policy that logged, and takes the best actions by "
    "them"
)
_BEST = "--algorithm.target=max learns the values of the best policy"
TRAINS = True


@dataclasses.dataclass(frozen=True)
class TrainCommand:
    """Flags of this script."""

    config: str | None = option(
        None,
        "settings to start from: a preset (listed at the end), a run folder, or a "
        "JSON or YAML file",
    )
    data: str | None = option(
        None,
        "folder of a timeline, or minari:<name>, to learn from instead of an "
        "environment",
    )
    logdir: str | None = option(None, "root folder of the runs; none: logs")
    resume: str | None = option(None, "folder of a run to continue", group="checkpoint")
    init_from: str | None = option(
        None,
        "folder of a run that provides the initial weights and statistics",
        group="checkpoint",
    )
    init_checkpoint: str | None = option(
        None,
        "checkpoint of --init_from: newest, best or a step; none: newest",
        group="checkpoint",
    )
    profile: bool = option(
        False,
        "measure the time of each part of an iteration after training",
        group="log",
    )
    quiet: bool = option(False, "the same as --progress=false", group="log")
    debug: bool = option(False, "print tracebacks")


@dataclasses.dataclass(frozen=True)
class _OfRuns(RunConfig):
    """Flags of a run other than those of its algorithm, which need TensorFlow."""

    def __post_init__(self):
        pass


def early(argv: Sequence[str]) -> None:
    """Refuse what is wrong on a command line without TensorFlow, see ``check``."""
    if parsing.peek(argv, "seeds") is not None:
        raise UserError(
            "there is no --seeds; train once for each --seed instead, as "
            "examples/several_seeds.py does"
        )
    check(argv, TrainCommand)


def check(argv: Sequence[str], command: type) -> None:
    """Check all flags but those of an algorithm, and what they name.

    Raises:
      UserError: for a stray argument, a wrong value, or a run, config or timeline that
        does not exist.
    """
    texts, _ = parsing.parse(argv, ((command, ""), (_OfRuns, "")), some=True)
    for name in ("resume", "init_from"):
        if texts.get(name):
            runs.open_run(texts[name])
    if texts.get("config"):
        configs.check_name(texts["config"])
    if texts.get("data") and not minari_rows.is_name(texts["data"]):
        table_reader.partition(texts["data"])


def main(argv: Sequence[str]) -> int:
    """Parse flags, train, and print the run folder as the last line.

    Returns:
      Exit status: 0 if all steps are done, 128 plus the signal number if a signal
      ended the run early.
    """
    # Imported here because TensorFlow takes seconds and reads environment variables.
    from tfagents_batch import api
    from tfagents_batch.algorithms import REGISTRY
    from tfagents_batch.configs import named
    from tfagents_batch.logged import given, table_settings

    algorithm, preset = parsing.peek(argv, "algorithm"), parsing.peek(argv, "config")
    data = parsing.peek(argv, "data")
    base = defaults(algorithm, preset, data)
    if data is not None:
        algorithm = base.algorithm

    source = base.source.name
    parts = (TrainCommand, ""), (base, ""), (base.source, source)
    parts += ((base.settings, "algorithm"),)
    epilog = _listed("algorithms", REGISTRY) + _listed("presets", configs.PRESETS)
    parsed = command_line.flags(argv, *parts, epilog=epilog)
    command, options, of_source, changed = parsed
    command = replace(TrainCommand(), command)
    passed = {name: getattr(command, name) for name in _GIVEN}
    options |= {name: value for name, value in passed.items() if value}
    if command.quiet:
        options["progress"] = False
    options |= {"config": command.config, "logdir": command.logdir}
    options["settings"] = changed or None
    if data is not None:
        of_source = given.reference_scores(data) | of_source
        if minari_rows.is_name(data):
            gamma = getattr(replace(base.settings, changed), "gamma", None)
            timeline = {} if gamma is None else {"gamma": gamma}
            data = str(given.of_minari(data, timeline, command.logdir))
        table = table_settings.replaced(table_settings.newest(data), of_source)
        settings = named.offline_settings(algorithm, changed, command.config)
        if named.learns_values_of_the_log(algorithm, changed, command.config):
            chosen = ", ".join(f"{k}={x}" for k, x in sorted(settings.items()))
            command_line.say(f"{_VALUES} ({chosen}); {_BEST}")
        options |= {"source": table, "settings": settings}
        options["algorithm"] = algorithm
    elif of_source:
        options[source] = of_source
    run = api.train(**options)
    if options.get("progress", True):
        command_line.say(_next(run, options, data))
    command_line.show(run.logdir)
    return 0 if run.finished else exit_status(run.signal)


def _listed(what: str, names: Iterable[str]) -> str:
    """Return a paragraph of the help with names in alphabetical order."""
    text = f"{what}: {', '.join(sorted(names))}"
    options = {"subsequent_indent": "  ", "break_on_hyphens": False}
    return "\n\n" + textwrap.fill(text, 88, **options)


def defaults(algorithm: str | None, preset: str | None, data: str | None) -> Any:
    """Return the config whose values are the defaults of the flags.

    The arguments are texts of the flags ``algorithm``, ``config`` and ``data``.
    """
    from tfagents_batch.configs import named
    from tfagents_batch.logged import table_settings

    if data is None:
        return named.resolve(algorithm, None, preset, None, {})
    trained = named.offline_algorithm(algorithm, preset)
    settings = named.offline_settings(trained, None, preset)
    # A table of Minari is made when all flags are known.
    folder = None if minari_rows.is_name(data) else data
    return named.resolve(
        trained, None, preset, settings, {"source": table_settings.newest(folder)}
    )


def _next(run: Any, options: dict[str, Any], data: str | None) -> str:
    """Return what to do with a run: go on if it was stopped, and evaluate it.

    Flags that name the user's code have to be passed again.
    """
    from tfagents_batch.envs.registry import needs_user_code
    from tfagents_batch.envs.wrappers import named

    env, algorithm = options.get("env") or "", options.get("algorithm") or ""
    wrappers = options.get("wrappers") or ()
    again = {
        "env": env if needs_user_code(env) else "",
        "wrappers": json.dumps(wrappers) if named.of_modules(wrappers) else "",
        "algorithm": algorithm if ":" in algorithm else "",
    }
    own = "".join(f" --{key}={shlex.quote(x)}" for key, x in again.items() if x)
    command, folder = "tfagents-batch ", shlex.quote(run.logdir)
    more = f"go on:    {command}train --resume={folder}{own}\n"
    after = f"evaluate: {command}evaluate --logdir={folder}{own}"
    if data is not None and not env:  # there may be no environment
        after = (
            f"decide:   {command}decide --logdir={folder} --data={shlex.quote(data)}"
        )
        if not _can_decide(data):
            after = f"evaluate: {command}evaluate --logdir={folder} --env=<environment>"
    return after if run.finished else more + after


def _can_decide(data: str) -> bool:
    """Return whether a policy can be evaluated on a timeline."""
    from tfagents_batch.evaluation import episode_rows

    try:
        episode_rows.check(table_reader.partition(data))
    except UserError:
        return False
    return True
