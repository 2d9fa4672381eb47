"""Cost of worker processes: ``python -m benchmarks.workers``."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks import table
from benchmarks.inside.costs import Costs
from benchmarks.measure import command, process, ratios, results
from tfagents_batch.config import option
from tfagents_batch.scripts import app


class Cost(NamedTuple):
    """A figure of ``inside.costs``: its title in tables, unit, and maximum as goal."""

    title: str
    unit: str
    goal: float | None


COSTS = {
    "worker_rss_mib": Cost("resident memory of a CartPole-v1 worker", "MiB", 60),
    "worker_pss_mib": Cost("the same, shared pages by their share", "MiB", None),
    "ready_seconds": Cost("until four workers are ready", "s", 1.5),
    "close_idle_seconds": Cost("`close`, four idle workers", "s", 2),
    "close_stepping_seconds": Cost("`close`, four workers that step", "s", 2),
    "close_hung_seconds": Cost("`close`, four workers that hang", "s", 2),
}


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    repeats: int = option(5, "number of new processes, for every figure once", least=1)
    deadline_seconds: float = option(180.0, "time limit of one process", above=0)
    results: str = option(str(results.FOLDER / "workers.jsonl"), "file to append to")


def main(argv: Sequence[str]) -> int:
    """Measure, append the results to the file, and print a table."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    run, work, found = results.context(), dataclasses.asdict(Costs()), []
    for number in range(flags.repeats):
        result = process.run(
            "costs", work, flags.deadline_seconds, package="benchmarks.inside"
        )
        if isinstance(result, process.Failure):
            command.report(f"failed: {result}")
            return 1
        command.report(f"{number + 1} of {flags.repeats}: {result}")
        found.append(result)
    path = pathlib.Path(flags.results)
    results.append(path, run, lines(found, work))
    print(table.costs(results.read(path)))
    return 0


def lines(found: Sequence[dict[str, float]], work: dict) -> list[dict]:
    """Return one line for each figure, with its median.

    Args:
      found: results of ``benchmarks.inside.costs``.
      work: work that was measured.
    """
    lines = []
    for name, cost in COSTS.items():
        values = [result[name] for result in found if name in result]
        if values:
            head = {"row": name, **cost._asdict(), "config": work}
            value = ratios.median(values).median
            lines.append({**head, "value": value, "values": values})
    return lines


if __name__ == "__main__":
    sys.exit(command.run(main))
