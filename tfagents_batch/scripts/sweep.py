"""Search for good settings with many trainings: ``tfagents-batch sweep --search=...``.

Every flag of ``train`` can be given, or searched with ``--search=<flag>=<values>``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.distribute import sweep_search
from tfagents_batch.errors import TrainingError, UserError
from tfagents_batch.offline.reading import minari_rows
from tfagents_batch.scripts import command_line, train
from tfagents_batch.settings import fields, parsing, suggest
from tfagents_batch.training.log import console

Parts = Sequence[tuple[Any, str]]  # configs and prefixes, see ``parsing.parse``
# Flags of ``train`` that are no settings of a run.
_PASSED = "config", "data", "init_from", "init_checkpoint"
_NOT_SEARCHED = {
    "config": "start a sweep for each preset",
    "algorithm": "start a sweep for each algorithm",
    "seed": "train the best trials again with other seeds",
    "progress": "the output of each trial is in its folder",
}
_POINTS = 10  # of the search space that are checked before the first trial


@dataclasses.dataclass(frozen=True)
class SweepCommand:
    """Flags of this script."""

    logdir: str = option(
        "", "folder of the sweep; required. An interrupted sweep goes on there"
    )
    search: str | None = option(
        None, "a flag and its values, num_envs=8,16; may be repeated", group="sweep"
    )
    trials: int = option(20, "number of trials in the end", least=1, group="sweep")
    jobs: int = option(1, "trials at the same time", least=1, most=1024, group="sweep")
    metric: str = option("eval/return_mean", "metric that counts", group="sweep")
    goal: Literal["max", "min"] = option(
        "max", "whether large values are better", group="sweep"
    )
    value: Literal["last", "best"] = option(
        "last", "value of a trial: last one of the metric, or its best", group="sweep"
    )
    prune: bool = option(True, "stop trials worse than the median", group="sweep")
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


def main(argv: Sequence[str]) -> int:
    """Parse flags, run trials, and print a table and the path of the results."""
    from tfagents_batch.distribute import sweep_storage

    texts, rest = sweep_search.take(argv)
    if not parsing.HELP.intersection(argv):  # errors that need no TensorFlow come first
        sweep_storage.require_optuna()
        if not parsing.peek(rest, "logdir"):
            raise UserError("no folder is given; pass --logdir=<folder of the sweep>")
        for name in texts.keys() & _NOT_SEARCHED:
            raise UserError(f"--{name} cannot be searched; {_NOT_SEARCHED[name]}")
        for name, text in texts.items():
            if text.startswith(sweep_search.RANGES):
                sweep_search.parse(name, text, fields.kind(float), {})
        train.check(rest, SweepCommand)
    command_line.import_tensorflow()
    from tfagents_batch.configs import searches
    from tfagents_batch.distribute import sweep_loop, sweep_results

    if minari_rows.is_name(parsing.peek(rest, "data")):
        raise UserError(
            "--data of a sweep is the folder of a timeline; make one with "
            f"tfagents-batch timeline --input={parsing.peek(rest, 'data')}"
        )
    names = "algorithm", "config", "data"
    base = train.defaults(*(parsing.peek(rest, name) for name in names))
    source = base.source, base.source.name
    parts = (base, ""), source, (base.settings, "algorithm")
    parsed = command_line.flags(rest, (SweepCommand, ""), *parts)
    command = config.check(config.replace(SweepCommand(), parsed.pop(0)), "--")
    shown = parsed[0].pop("progress", True) and not command.quiet
    texts = texts or searches.usual(base.algorithm, command.data is not None)
    plan = sweep_search.SearchPlan(
        _fixed(command, parts, parsed),
        texts,
        {name: _values(name, x, parts, rest) for name, x in texts.items()},
        **{name: getattr(command, name) for name in ("metric", "goal", "value")},
    )
    _check(plan, parts)
    folder = Path(command.logdir).expanduser()
    with (
        sweep_storage.opened(folder, plan, command.prune) as study,
        console.doing(f"{command.trials} trials") as now,
    ):

        def report(trial: Any) -> None:
            rows = sweep_results.rows(study, plan)
            sweep_results.write(folder / sweep_results.FILE, rows)
            now(f"{len(rows)} of {command.trials} trials ended")
            if shown:
                command_line.say(sweep_results.line(trial.number, rows, command.trials))

        try:
            sweep_loop.run(plan, study, folder, command.trials, command.jobs, report)
        except KeyboardInterrupt:
            command_line.say("the same command goes on with the sweep")
            raise
        rows = sweep_results.rows(study, plan)
        sweep_results.write(folder / sweep_results.FILE, rows)
    command_line.show(f"{sweep_results.table(rows)}\n\n{sweep_results.summary(rows)}")
    if rows[0].state != "complete":
        raise TrainingError(
            f"no trial completed; one of them ended with: {rows[-1].error}; see "
            f"{sweep_results.FILE} and the files output.txt in {folder}"
        )
    command_line.show(f"train the best again: {sweep_results.command(plan, rows[0])}")
    try:
        sweep_results.draw(folder / sweep_results.FIGURE, plan, rows)
        command_line.show(str(folder / sweep_results.FIGURE))
    except UserError as error:
        command_line.say(f"no figure: {error}")
    command_line.show(str(folder / sweep_results.FILE))
    return 0


def _fixed(
    command: SweepCommand, parts: Parts, parsed: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Return the flags that every training gets, as text by name."""
    passed = {name: getattr(command, name) for name in _PASSED}
    flags = {name: value for name, value in passed.items() if value is not None}
    for (_, prefix), options in zip(parts, parsed, strict=True):
        flags |= {f"{prefix}.{k}" if prefix else k: x for k, x in options.items()}
    return {name: fields.to_text(value) for name, value in flags.items()}


def _values(name: str, text: str, parts: Parts, argv: Sequence[str]) -> Any:
    """Return the values of a searched flag, checked by the flag."""
    if parsing.peek(argv, name) is not None:
        raise UserError(
            f"--{name} is given and searched; leave out --{name} or --search={name}"
        )
    known = {
        f"{prefix}.{setting}" if prefix else setting: (part, setting)
        for part, prefix in parts
        for setting in config.names_of(part)
    }
    if name not in known:
        hint = suggest.setting(name, {setting: f"--{setting}" for setting in known})
        raise UserError(
            f"--search={name}: there is no flag --{name} with {parts[0][0].algorithm}; "
            f"{hint or 'tfagents-batch train --help lists all flags'}"
        )
    return sweep_search.parse(name, text, *config.setting(*known[name]))


def _check(plan: sweep_search.SearchPlan, parts: Parts) -> None:
    """Refuse a plan without an evaluation, or one that ``train`` would refuse.

    It is refused if several random points of the search space all are.
    """
    import optuna

    names = {*plan.fixed, *plan.search}
    played = "env" in names or parts[0][0].env
    off = not played or plan.fixed.get("eval_every") == "0"
    if off and plan.metric.startswith("eval/"):
        raise UserError(
            f"--metric is {plan.metric}, but there are no evaluations in an "
            "environment; pass --env and no --eval_every=0, or another metric, such as "
            "--metric=actions/gain --goal=max"
        )
    if "data" in names:  # its rows would have to be read
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    points = [study.ask(dict(plan.space)).params for _ in range(_POINTS)]
    refusals = [_refusal(plan.fixed | values, parts) for values in points]
    if all(refusals):
        raise UserError(f"no point of the search space can be trained: {refusals[0]}")


def _refusal(values: Mapping[str, Any], parts: Parts) -> UserError | None:
    """Return why ``train`` would refuse these flags; None if it would not."""
    from tfagents_batch.configs import named

    texts = [f"--{name}={x}" for name, x in values.items() if name not in _PASSED]
    preset, algorithm = values.get("config"), values.get("algorithm")
    try:
        options, of_source, settings = parsing.parse(texts, parts)
        if of_source:
            options[parts[1][1]] = of_source
        if preset is not None:  # checks import the names
            named.require(named.find(preset, algorithm), {"env": None} | options)
        run = named.resolve(algorithm, None, preset, settings or None, options)
        recipe = run.check().recipe()
        if not recipe.in_graph and recipe.has_workers:  # both look up the name
            recipe.constructor()
    except UserError as error:
        return error
    return None
