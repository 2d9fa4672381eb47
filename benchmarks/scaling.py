"""Cost of more environments: ``python -m benchmarks.scaling``."""

from __future__ import annotations

import dataclasses
import pathlib

from benchmarks.inside.scaled import Scaled
from benchmarks.measure import command, figures, ratios, results, tables
from benchmarks.measure.process import Result
from tfagents_batch.config import option

FIGURES = (
    *("env_steps_per_second", "iteration_seconds", "first_iteration_seconds"),
    *("learner_rss_mib", "workers_rss_mib"),
)
KINDS = ("training", "acting")


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    env: str = option("CartPole-v1", "environment name")
    num_envs: tuple[int, ...] = option((1, 8, 32, 128, 256), "batch sizes", least=1)
    repeats: int = option(3, "number of new processes for each figure", least=1)
    seconds: float = option(5.0, "measured seconds of each process", above=0)
    num_workers: int | None = option(None, "workers; None: one per core", least=1)
    deadline_seconds: float = option(600.0, "time limit of one process", above=0)
    results: str = option(str(results.FOLDER / "scaling.jsonl"), "file to append to")


def main(flags: Command) -> int:
    """Measure, record, and print a table."""
    run, path = results.context(), pathlib.Path(flags.results)
    machine = {"seconds": flags.seconds, "num_workers": flags.num_workers}
    works = {
        (size, kind): Scaled(size, kind == "training", flags.env, **machine)
        for size in flags.num_envs
        for kind in KINDS
    }
    found = figures.repeat(
        works,
        flags.repeats,
        lambda each: figures.inside("scaled", works[each], flags.deadline_seconds),
    )
    if found.failures:
        return 1
    lines = []
    for size in flags.num_envs:
        kinds = {x: _kind(works[size, x], found.results[size, x]) for x in KINDS}
        lines.append({"row": f"{flags.env}-{size}", "num_envs": size, **kinds})
    results.append(path, run, lines)
    print(tables.scaling(results.read(path)))
    return 0


def _kind(work: Scaled, ran: list[Result]) -> Result:
    """Return what to record of training or of acting."""
    values = {name: [x[name] for x in ran] for name in FIGURES}
    return {
        "config": dataclasses.asdict(work),
        "own": {key: ran[0][key] for key in ("workers", "route", "versions")},
        "values": values,
        **{name: ratios.median(each).median for name, each in values.items()},
    }


if __name__ == "__main__":
    command.run(Command, main)
