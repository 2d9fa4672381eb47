"""Speed and memory of the replay: ``python -m benchmarks.replay``."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.inside.replayed import Replaying
from benchmarks.measure import command, figures, results, rows, tables
from benchmarks.measure.figures import Figure
from benchmarks.measure.process import Result
from benchmarks.work import machine
from tfagents_batch.config import option

_GRAPH, _COMPILED = "a graph with compiled parts", "one compiled loop"
_WRITE = "write {num_envs}"  # titles name fields of the work
_SAMPLE = "sample {batch_size} of {capacity:,}"


class Row(NamedTuple):
    """A replay to measure, and its figures by their names in ``inside.replayed``."""

    work: Replaying
    figures: dict[str, Figure]


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
    return {
        "sample_us": Figure(
            f"{_SAMPLE} by priority, {place}, and set theirs", "µs", 100
        ),
        "write_us": Figure(f"{_WRITE} with priorities, {place}", "µs"),
    }


# DQN on Atari runs as the first row: its convolutions stay in the graph, with a thread
# per core. With a small network, as for priorities, one thread is our default.
_CORES = machine.cores()
ROWS = {
    "frames-graph": Row(Replaying(False, False, threads=_CORES), _frames(_GRAPH, 150)),
    "frames-compiled": Row(
        Replaying(True, False, threads=_CORES), _frames(_COMPILED, None)
    ),
    "priority-graph": Row(Replaying(False, True), _priority(_GRAPH)),
    "priority-compiled": Row(Replaying(True, True), _priority(_COMPILED)),
}
ALIASES = {"PF-15": tuple(ROWS)}  # number on the goals page


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    row: tuple[str, ...] = option((), "replays to measure; all by default")
    capacity: int | None = option(None, "transitions; None: the row's", least=1000)
    repeats: int = option(3, "number of new processes for each replay", least=1)
    deadline_seconds: float = option(900.0, "time limit of one process", above=0)
    results: str = option(str(results.FOLDER / "replay.jsonl"), "file to append to")


def main(flags: Command) -> int:
    """Measure, append the results to the file, and print a table."""
    run, path = results.context(), pathlib.Path(flags.results)
    chosen = rows.select(flags.row, ROWS, ALIASES)
    if flags.capacity is not None:
        capacity = {"capacity": flags.capacity}
        chosen = {
            name: row._replace(work=dataclasses.replace(row.work, **capacity))
            for name, row in chosen.items()
        }
    found = figures.repeat(
        chosen,
        flags.repeats,
        lambda x: figures.inside("replayed", chosen[x].work, flags.deadline_seconds),
    )
    for name, ran in found.results.items():
        results.append(path, run, lines(name, chosen[name], ran))
    print(tables.costs(results.read(path)))
    return 1 if found.failures else 0


def lines(name: str, row: Row, found: Sequence[Result]) -> list[Result]:
    """Return one line for each figure of a replay, from the results of its runs."""
    config = dataclasses.asdict(row.work)
    shared = {
        "row": name,
        "source_us": [x["source_us"] for x in found],
        "config": config,
        "versions": found[0]["versions"],
    }
    return [
        figures.line(
            figure._replace(title=figure.title.format(**config)),
            [result[key] for result in found],
            figure=key,
            **shared,
        )
        for key, figure in row.figures.items()
    ]


if __name__ == "__main__":
    command.run(Command, main)
