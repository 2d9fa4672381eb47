"""Seconds to the end of the first update: ``python -m benchmarks.startup``."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.measure import caches, command, process, ratios, results, rows
from benchmarks.work.thresholds import OURS, PEER, TASKS
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app

FILE = "startup.jsonl"
PHASES = ("import", "construction", "first_iteration")
# The work is a single iteration.
WORK = dataclasses.replace(TASKS["cartpole-475"].work, steps=1, eval_every=0)

Line = dict[str, Any]


class Start(NamedTuple):
    """A way to start.

    Attributes:
      title: title in tables.
      contender: contender that starts.
      goal: maximum number of seconds; None for no goal.
    """

    title: str
    contender: str
    goal: float | None


STARTS = {
    "first-ever": Start("ours, first ever: the engine is compiled too", OURS, None),
    "cold": Start("ours, engine there, no compiled program", OURS, 12),
    "warm": Start("ours, compiled programs cached", OURS, 6),
    "sb3": Start("Stable-Baselines3", PEER, None),
}
ALIASES = {"PF-10": ("cold", "warm")}  # number on the goals page


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    row: tuple[str, ...] = option((), "ways to start; all by default")
    repeats: int = option(5, "number of new processes of each way to start", least=1)
    deadline_seconds: float = option(600.0, "time limit of one process", above=0)
    peer_python: str = option("", "interpreter that has Stable-Baselines3")
    results: str = option(str(results.FOLDER / FILE), "file to append to")


def main(argv: Sequence[str]) -> int:
    """Measure, record, and print a table."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    chosen = rows.select(flags.row, STARTS, ALIASES)
    run, path = results.context(), pathlib.Path(flags.results)
    found: dict[str, list[Line]] = {name: [] for name in chosen}
    failures: dict[str, process.Failure] = {}
    with caches.Caches() as folders:
        homes = _homes(folders, flags)
        for names in ratios.rounds([*chosen], flags.repeats):
            for name in names:
                if name in failures:
                    continue
                try:
                    result = _start(STARTS[name].contender, homes[name](), flags)
                except UserError as error:  # no cache; other ways may still start
                    result = process.Failure(name, str(error), "")
                if isinstance(result, process.Failure):
                    failures[name] = result
                    command.report(f"failed: {name}: {result}")
                    continue
                cache = result["own"].get("compile_cache", "none")
                command.report(f"{name}: {result['phases']}, compile cache: {cache}")
                found[name].append(result)
    results.append(path, run, lines(found, failures))
    print(markdown(results.read(path)))
    return 1 if failures else 0


def lines(
    found: dict[str, list[Line]], failures: dict[str, process.Failure]
) -> list[Line]:
    """Return one line for each measured way to start.

    Args:
      found: results of each way.
      failures: failures of ways that failed; their results are dropped.
    """
    lines = []
    for name, start in STARTS.items():
        head = {"row": name, **start._asdict(), "unit": "s", "config": WORK.config()}
        if name in failures:
            lines.append({**head, "failed": failures[name]._asdict()})
        elif ran := found.get(name):
            values = [result["seconds"] for result in ran]
            lines.append(
                {
                    **head,
                    "value": ratios.median(values).median,
                    "values": values,
                    "phases": {
                        phase: ratios.median([x["phases"][phase] for x in ran]).median
                        for phase in PHASES
                    },
                    "env_steps": ran[0]["steps"],
                    "own": ran[0]["own"],
                    "versions": ran[0]["versions"] | ran[0]["same"]["versions"],
                }
            )
    return lines


def markdown(lines: Sequence[Line]) -> str:
    """Return a table with the newest run of every way to start.

    Args:
      lines: lines of ``startup.jsonl``.
    """
    shown = [
        "| start | median s (range) | import | construction | first iteration "
        "| env steps in it | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    origins = []
    for found in results.newest(lines).values():
        for line in found:
            goal = "" if line["goal"] is None else f"at most {line['goal']:g}"
            if "failed" in line:
                reason = line["failed"]["reason"]
                shown.append(f"| {line['title']} | failed: {reason} | | | | | {goal} |")
                continue
            phases = " | ".join(f"{line['phases'][phase]:.2f}" for phase in PHASES)
            low, high = min(line["values"]), max(line["values"])
            shown.append(
                f"| {line['title']} | {line['value']:.2f} ({low:.2f} to {high:.2f}) "
                f"| {phases} | {line['env_steps']:,} | {goal} |"
            )
            repeats = f"{len(line['values'])} processes each"
            origins.append(results.origin(line, repeats))
    return "\n".join([*shown, "", *dict.fromkeys(origins)])


def _homes(folders: caches.Caches, flags: Command) -> dict[str, Callable[[], str]]:
    """Return functions that create the cache folder of each way to start."""

    def fill(folder: str) -> None:
        result = _start(OURS, folder, flags)
        if isinstance(result, process.Failure):
            raise UserError(f"the run that warms the cache failed: {result}")

    return {
        "first-ever": folders.empty,
        "cold": folders.cold,
        "warm": lambda: folders.warm(WORK.preset, fill),
        "sb3": lambda: "",
    }


def _start(name: str, home: str, flags: Command) -> Line | process.Failure:
    work = dataclasses.replace(WORK, cache_home=home, launched=time.time())
    pythons = {"peers": flags.peer_python}
    return process.run_contender(
        name, dataclasses.asdict(work), flags.deadline_seconds, pythons
    )


if __name__ == "__main__":
    sys.exit(command.run(main))
