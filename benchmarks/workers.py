"""Cost of worker processes: ``python -m benchmarks.workers``."""

from __future__ import annotations

import dataclasses
import pathlib

from benchmarks.inside.costs import Costs
from benchmarks.measure import command, figures, results, tables
from benchmarks.measure.figures import Figure
from tfagents_batch.config import option

# Figures of ``inside.costs``.
COSTS = {
    "worker_rss_mib": Figure("resident memory of a CartPole-v1 worker", "MiB", 60),
    "worker_pss_mib": Figure("the same, shared pages by their share", "MiB"),
    "ready_seconds": Figure("until four workers are ready", "s", 1.5),
    "close_idle_seconds": Figure("`close`, four idle workers", "s", 2),
    "close_stepping_seconds": Figure("`close`, four workers that step", "s", 2),
    "close_hung_seconds": Figure("`close`, four workers that hang", "s", 2),
}


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    repeats: int = option(5, "number of new processes, for every figure once", least=1)
    deadline_seconds: float = option(180.0, "time limit of one process", above=0)
    results: str = option(str(results.FOLDER / "workers.jsonl"), "file to append to")


def main(flags: Command) -> int:
    """Measure, append the results to the file, and print a table."""
    run, path, work = results.context(), pathlib.Path(flags.results), Costs()
    found = figures.repeat(
        ["workers"],
        flags.repeats,
        lambda _: figures.inside("costs", work, flags.deadline_seconds),
    )
    if found.failures:
        return 1
    config, ran = dataclasses.asdict(work), found.results["workers"]
    lines = [
        figures.line(figure, [x[name] for x in ran], row=name, config=config)
        for name, figure in COSTS.items()
        if name in ran[0]
    ]
    results.append(path, run, lines)
    print(tables.costs(results.read(path)))
    return 0


if __name__ == "__main__":
    command.run(Command, main)
