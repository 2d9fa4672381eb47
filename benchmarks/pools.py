"""Workers of Ray and Spark: ``python -m benchmarks.pools``.

Compares rollouts of environments that wait with those of RLlib's environment runners.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys

from benchmarks.measure import command, process
from benchmarks.measure.process import Failure, Result
from benchmarks.work import machine
from benchmarks.work.pooled import Pooled
from tfagents_batch.config import option

OURS, RLLIB = "tfagents_batch", "rllib"
MODULES = {OURS: "pool_ours", RLLIB: "pool_rllib"}
DEADLINE = 300  # seconds of a part


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    workers: tuple[int, ...] = option((1, 2, 4), "numbers of workers", least=1)
    rounds: int = option(3, "repetitions", least=1)
    seconds: float = option(10.0, "seconds of a measurement", above=0)
    python: str = option("", "interpreter with RLlib; empty: that of make_environments")


def main(flags: Command) -> int:
    """Measure, and print a line for each figure; 1 if something failed."""
    print(machine.summary())
    pythons = {OURS: sys.executable}
    if rllib := process.python_of(RLLIB, {RLLIB: flags.python}):
        pythons[RLLIB] = rllib
    else:
        process.report("no RLlib: python -m benchmarks.make_environments --name=rllib")
    works = [Pooled("rollouts", n, seconds=flags.seconds) for n in flags.workers]
    parts = {
        f"{library:14} {work.workers} workers": (library, work)
        for work in works
        for library in pythons
    }

    def run(part: str, number: int) -> Result | Failure:
        library, work = parts[part]
        process.report(f"{part}, round {number}")
        return _run(MODULES[library], work, pythons[library])

    played = process.alternate([*parts], flags.rounds, run)
    for part, found in played.figures("steps_per_s").items():
        if found:
            share = statistics.median(found) / parts[part][1].fastest
            speeds = ", ".join(f"{x:,.0f}" for x in found)
            print(f"{part}: {speeds} steps/s; {share:.2f} of fastest")
    failed = bool(played.failures)
    for what in ("calls", "jobs"):
        found = _run(MODULES[OURS], Pooled(what), sys.executable)
        if isinstance(found, Failure):
            process.report(f"failed: {found}")
            failed = True
            continue
        for name, value in found.items():
            print(f"{name:16} {value:8.2f} ms")
    return int(failed)


def _run(module: str, work: Pooled, python: str) -> Result | Failure:
    return process.run(f"benchmarks.inside.{module}", work, DEADLINE, python)


if __name__ == "__main__":
    command.run(Command, main)
