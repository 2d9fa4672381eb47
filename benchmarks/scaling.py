"""Cost of more environments: ``python -m benchmarks.scaling``."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.inside.scaled import Scaled
from benchmarks.measure import command, process, ratios, results
from tfagents_batch.config import option
from tfagents_batch.scripts import app

FILE = "scaling.jsonl"
FIGURES = (
    *("env_steps_per_second", "iteration_seconds", "first_iteration_seconds"),
    *("learner_rss_mib", "workers_rss_mib"),
)
WORKS = {"training": True, "acting": False}

Line = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    env: str = option("CartPole-v1", "environment name")
    num_envs: tuple[int, ...] = option((1, 8, 32, 128, 256), "batch sizes", least=1)
    repeats: int = option(3, "number of new processes for each figure", least=1)
    seconds: float = option(5.0, "measured seconds of each process", above=0)
    num_workers: int | None = option(None, "workers; None: one per core", least=1)
    deadline_seconds: float = option(600.0, "time limit of one process", above=0)
    results: str = option(str(results.FOLDER / FILE), "file to append to")


def main(argv: Sequence[str]) -> int:
    """Measure, record, and print a table."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    run, path = results.context(), pathlib.Path(flags.results)
    pairs = [(size, kind) for size in flags.num_envs for kind in WORKS]
    found: dict[tuple[int, str], list[Line]] = {pair: [] for pair in pairs}
    for names in ratios.rounds(pairs, flags.repeats):
        for size, kind in names:
            result = process.run(
                "scaled",
                dataclasses.asdict(_work(size, kind, flags)),
                flags.deadline_seconds,
                package="benchmarks.inside",
            )
            if isinstance(result, process.Failure):
                command.report(f"failed: {size} environments, {kind}: {result}")
                return 1
            rate = result["env_steps_per_second"]
            command.report(f"{size} environments, {kind}: {rate:,.0f} env steps/s")
            found[size, kind].append(result)
    lines = []
    for size in flags.num_envs:
        works = {kind: _work(size, kind, flags) for kind in WORKS}
        lines.append(line(works, {kind: found[size, kind] for kind in WORKS}))
    results.append(path, run, lines)
    print(markdown(results.read(path)))
    return 0


def line(works: dict[str, Scaled], found: dict[str, list[Line]]) -> Line:
    """Return the line to record for one batch size.

    Args:
      works: work of training and work of acting.
      found: their results.
    """
    env, size = works["training"].env, works["training"].num_envs
    line = {"row": f"{env}-{size}", "num_envs": size}
    for kind, ran in found.items():
        line[kind] = {
            "config": dataclasses.asdict(works[kind]),
            "own": {key: ran[0][key] for key in ("workers", "route", "versions")},
            "values": {name: [x[name] for x in ran] for name in FIGURES},
            **{name: ratios.median([x[name] for x in ran]).median for name in FIGURES},
        }
    return line


def markdown(lines: Sequence[Line]) -> str:
    """Return a table with the newest run of every batch size.

    Args:
      lines: lines of ``scaling.jsonl``.
    """
    rows = [
        "| environment | number | training, env steps/s | µs a step | s an iteration "
        "| policy alone, env steps/s | learner, MiB | workers, MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    origins = []
    newest = [found[-1] for found in results.newest(lines).values()]
    newest.sort(key=lambda line: (line["training"]["config"]["env"], line["num_envs"]))
    for each in newest:
        training, acting = each["training"], each["acting"]
        rate = training["env_steps_per_second"]
        rows.append(
            f"| {training['config']['env']} | {each['num_envs']} | {rate:,.0f} "
            f"| {1e6 / rate:.1f} "
            f"| {training['iteration_seconds']:.4f} "
            f"| {acting['env_steps_per_second']:,.0f} "
            f"| {training['learner_rss_mib']:.0f} | {training['workers_rss_mib']:.0f} |"
        )
        config = training["config"]
        what = (
            f"{config['env']}, {config['rollout_length']} steps an iteration, "
            f"{config['epochs']} epochs of {config['minibatches']} minibatches; "
            f"medians of {len(training['values']['iteration_seconds'])} processes of "
            f"{config['seconds']:g} s"
        )
        origins.append(results.origin(each, what))
    return "\n".join([*rows, "", *dict.fromkeys(origins)])


def _work(size: int, kind: str, flags: Command) -> Scaled:
    return Scaled(
        size,
        WORKS[kind],
        flags.env,
        seconds=flags.seconds,
        num_workers=flags.num_workers,
    )


if __name__ == "__main__":
    sys.exit(command.run(main))
