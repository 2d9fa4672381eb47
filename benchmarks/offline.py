"""Logged rows: ``python -m benchmarks.offline --pairs=2``.

Times the check of rows, the timeline and reading, and gradient steps beside d3rlpy's.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile

from benchmarks.measure import command, logged, process
from benchmarks.measure.process import Failure, Result
from benchmarks.work import machine
from benchmarks.work.logged import D3RLPY, LEARNERS, OURS, Logged, Name
from tfagents_batch.config import option
from tfagents_batch.errors import UserError


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    rows: int = option(1_000_000, "rows of 10 features", least=1000)
    algorithms: tuple[Name, ...] = option(("dqn",), "algorithms to train")
    pairs: int = option(2, "alternating pairs of trainings of each", least=1)
    steps: int = option(
        40_000, "gradient steps of ours; d3rlpy makes fewer where it is slow", least=400
    )
    python: str = option("", "interpreter with d3rlpy; empty: that of the peers")


def main(flags: Command) -> int:
    """Measure, and print a line for each figure; 1 if something failed."""
    kinds = {LEARNERS[name].box for name in flags.algorithms}
    if len(kinds) > 1:
        vectors = ", ".join(name for name, each in LEARNERS.items() if each.box)
        raise UserError(
            f"algorithms is {', '.join(flags.algorithms)}; expected algorithms for the "
            f"same actions, either vectors ({vectors}) or numbers. Use two commands"
        )
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/table", f"{folder}/rows.npz"
        rows = Logged("prepare", *data, flags.rows, box=True in kinds)
        prepared = logged.run(OURS, rows)
        if isinstance(prepared, Failure):
            process.report(f"failed: {prepared}")
            return 1
        print(f"{flags.rows:,} rows of 10 features; {machine.summary()}")
        for name, value in prepared.items():
            print(f"{name:16} {value:,.2f}")
        failed = [_compare(name, data, flags) for name in flags.algorithms]
    return int(any(failed))


def _compare(learner: str, data: tuple[str, str], flags: Command) -> bool:
    """Train one algorithm of both libraries and print its lines; True on a failure."""

    def train(library: str, number: int) -> Result | Failure:
        process.report(f"{learner} of {library}, pair {number}")
        share = 1.0 if library == OURS else LEARNERS[learner].share
        work = Logged("speed", *data, round(flags.steps * share), learner)
        return logged.run(library, work, flags.python)

    played = process.alternate((OURS, D3RLPY), flags.pairs, train)
    speeds = played.figures("steps_per_s")
    for name, values in speeds.items():
        numbers = ", ".join(f"{x:,.{1 if x < 100 else 0}f}" for x in values)
        print(f"{learner:7} {name:16} {numbers} gradient steps/s", flush=True)
    if played.failures:
        return True
    ratios = [a / b for a, b in zip(*speeds.values(), strict=True)]
    print(f"{learner:7} {'ratio':16} {statistics.median(ratios):.3g}, median of pairs")
    return False


if __name__ == "__main__":
    command.run(Command, main)
