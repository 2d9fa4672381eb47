"""Speed and memory of the replay: ``python -m benchmarks.replay``."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks import table
from benchmarks.inside.replayed import Replaying
from benchmarks.measure import command, process, ratios, results, rows
from benchmarks.work import machine
from tfagents_batch.config import option
from tfagents_batch.scripts import app

FILE = "replay.jsonl"
_GRAPH, _COMPILED = "a graph with compiled parts", "one compiled loop"

Line = dict[str, Any]


class Figure(NamedTuple):
    """A figure of ``inside.replayed``: its title in tables, unit and maximum as goal.

    The title may name fields of the work.
    """

    title: str
    unit: str
    goal: float | None = None


_WRITE = "write {num_envs}"
_SAMPLE = "sample {batch_size} of {capacity:,}"


def _frames(place: str, goal: float | None) -> dict[str, Figure]:
    """Return the figures of frame stacks in a program."""
    end = f"stacks of frames, {place}"
    return {
        "both_us": Figure(f"{_WRITE} and {_SAMPLE} {end}", "µs", goal),
        "write_us": Figure(f"{_WRITE} {end}", "µs"),
        "sample_us": Figure(f"{_SAMPLE} {end}", "µs"),
        "memory_gb": Figure(f"memory of {{capacity:,}} {end}", "GB", 8),
    }


def _priority(place: str) -> dict[str, Figure]:
    """Return the figures of priorities in a program."""
    end = f"by priority, {place}"
    return {
        "sample_us": Figure(f"{_SAMPLE} {end}, and set theirs", "µs", 100),
        "write_us": Figure(f"{_WRITE} with priorities, {place}", "µs"),
    }


class Row(NamedTuple):
    """A replay to measure, and its figures by their names in ``inside.replayed``."""

    work: Replaying
    figures: dict[str, Figure]


CORES = machine.cores()
ROWS = {
    # As DQN on Atari runs: its convolutions stay in the graph, with a thread per core.
    "frames-graph": Row(
        Replaying(compiled=False, prioritized=False, threads=CORES),
        _frames(_GRAPH, 150),
    ),
    "frames-compiled": Row(
        Replaying(compiled=True, prioritized=False, threads=CORES),
        _frames(_COMPILED, None),
    ),
    # With a small network, one thread is our default.
    "priority-graph": Row(
        Replaying(compiled=False, prioritized=True), _priority(_GRAPH)
    ),
    "priority-compiled": Row(
        Replaying(compiled=True, prioritized=True), _priority(_COMPILED)
    ),
}
ALIASES = {"PF-15": tuple(ROWS)}  # number on the goals page


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    row: tuple[str, ...] = option((), "replays to measure; all by default")
    capacity: int | None = option(None, "transitions; None: the row's", least=1000)
    repeats: int = option(3, "number of new processes for each replay", least=1)
    deadline_seconds: float = option(900.0, "time limit of one process", above=0)
    results: str = option(str(results.FOLDER / FILE), "file to append to")


def main(argv: Sequence[str]) -> int:
    """Measure, append the results to the file, and print a table."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    chosen = rows.select(flags.row, ROWS, ALIASES)
    run, found = results.context(), {name: [] for name in chosen}
    for names in ratios.rounds([*chosen], flags.repeats):
        for name in names:
            work = _work(chosen[name], flags)
            result = process.run(
                "replayed",
                dataclasses.asdict(work),
                flags.deadline_seconds,
                package="benchmarks.inside",
            )
            if isinstance(result, process.Failure):
                command.report(f"failed: {name}: {result}")
                return 1
            command.report(f"{name}: {result}")
            found[name].append(result)
    path = pathlib.Path(flags.results)
    for name, row in chosen.items():
        row = row._replace(work=_work(row, flags))
        results.append(path, run, lines(name, row, found[name]))
    print(table.costs(results.read(path)))
    return 0


def lines(name: str, row: Row, found: Sequence[Line]) -> list[Line]:
    """Return one line for each figure of a replay, with its median.

    Args:
      name: name of the row.
      row: measured row.
      found: results of ``inside.replayed``.
    """
    config, lines = dataclasses.asdict(row.work), []
    for key, figure in row.figures.items():
        values = [result[key] for result in found]
        title = figure.title.format(**config)
        head = {"row": name, "figure": key, **figure._replace(title=title)._asdict()}
        value = ratios.median(values).median
        own = {"source_us": [x["source_us"] for x in found], "config": config}
        versions = {"versions": found[0]["versions"]}
        lines.append({**head, "value": value, "values": values, **own, **versions})
    return lines


def _work(row: Row, flags: Command) -> Replaying:
    if flags.capacity is None:
        return row.work
    return dataclasses.replace(row.work, capacity=flags.capacity)


if __name__ == "__main__":
    sys.exit(command.run(main))
