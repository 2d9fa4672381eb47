"""Seconds to the end of the first update: ``python -m benchmarks.startup``."""

from __future__ import annotations

import dataclasses
import pathlib

from benchmarks import learning
from benchmarks.measure import caches, command, figures, ratios, results, rows, tables
from benchmarks.measure.figures import Figure
from benchmarks.measure.process import Failure, Played, Result
from benchmarks.work.thresholds import OURS, PEER, TASKS
from tfagents_batch.config import option
from tfagents_batch.errors import UserError

WORK = learning.first_iteration(TASKS["cartpole-475"].work)
# Contender and figure of each way to start.
STARTS = {
    "first-ever": (OURS, Figure("ours, first ever: the engine is compiled too", "s")),
    "cold": (OURS, Figure("ours, engine there, no compiled program", "s", 12)),
    "warm": (OURS, Figure("ours, compiled programs cached", "s", 6)),
    "sb3": (PEER, Figure("Stable-Baselines3", "s")),
}
ALIASES = {"PF-10": ("cold", "warm")}  # number on the goals page


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    row: tuple[str, ...] = option((), "ways to start; all by default")
    repeats: int = option(5, "number of new processes of each way to start", least=1)
    deadline_seconds: float = option(600.0, "time limit of one process", above=0)
    peer_python: str = option("", "interpreter that has Stable-Baselines3")
    results: str = option(str(results.FOLDER / "startup.jsonl"), "file to append to")


def main(flags: Command) -> int:
    """Measure, record, and print a table."""
    run, path = results.context(), pathlib.Path(flags.results)
    with caches.Caches() as folders:

        def start(name: str) -> Result | Failure:
            contender, _ = STARTS[name]
            options = flags.deadline_seconds, flags.peer_python
            homes = {
                "first-ever": folders.empty,
                "cold": folders.cold,
                "warm": lambda: folders.warm(
                    WORK.preset,
                    lambda home: learning.launch(OURS, WORK, home, *options),
                ),
                "sb3": lambda: "",
            }
            try:
                return learning.launch(contender, WORK, homes[name](), *options)
            except UserError as error:  # no cache; other ways may still start
                return Failure(name, str(error), "")

        chosen = rows.select(flags.row, STARTS, ALIASES)
        found = figures.repeat(chosen, flags.repeats, start)
    results.append(path, run, lines(found))
    print(tables.startup(results.read(path)))
    return 1 if found.failures else 0


def lines(found: Played) -> list[Result]:
    """Return one line for each measured way to start, with its results or failure."""
    recorded = []
    for name, (contender, figure) in STARTS.items():
        head = {"row": name, "contender": contender, "config": WORK.config()}
        if name in found.failures:
            failed = found.failures[name]._asdict()
            recorded.append({**head, **figure._asdict(), "failed": failed})
        elif ran := found.results.get(name):
            phases = {
                phase: ratios.median([x["phases"][phase] for x in ran]).median
                for phase in tables.START_PHASES
            }
            fields = {
                "phases": phases,
                "env_steps": ran[0]["steps"],
                "own": ran[0]["own"],
                "versions": ran[0]["versions"] | ran[0]["same"]["versions"],
            }
            seconds = [result["seconds"] for result in ran]
            recorded.append(figures.line(figure, seconds, **head, **fields))
    return recorded


if __name__ == "__main__":
    command.run(Command, main)
