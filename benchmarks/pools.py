"""Workers of Ray and Spark: ``python -m benchmarks.pools``.

Compares rollouts of environments that wait with those of RLlib's environment runners,
in alternating order, for several numbers of workers.
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
    works = {n: Pooled("rollouts", n, seconds=flags.seconds) for n in flags.workers}
    parts = [(name, n) for n in works for name in pythons]

    def run(part: str, number: int) -> Result | Failure:
        name, workers = parts[int(part)]
        process.report(f"{name}, {workers} workers, round {number}")
        module = {OURS: "pool_ours", RLLIB: "pool_rllib"}[name]
        return _run(module, works[workers], pythons[name])

    played = process.alternate([*map(str, range(len(parts)))], flags.rounds, run)
    failed = bool(played.failures)
    for i, (name, workers) in enumerate(parts):
        if found := [each["steps_per_s"] for each in played.results[str(i)]]:
            share = statistics.median(found) / works[workers].fastest
            speeds = ", ".join(f"{x:,.0f}" for x in found)
            print(
                f"{name:16} {workers} workers: {speeds} steps/s; {share:.2f} of fastest"
            )
    for what in ("calls", "jobs"):
        found = _run("pool_ours", Pooled(what), sys.executable)
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
