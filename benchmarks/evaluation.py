"""Evaluation of a policy from logged rows: ``python -m benchmarks.evaluation``."""

from __future__ import annotations

import dataclasses
import resource
import tempfile
import time

import numpy as np

from benchmarks.inside import wide_rows
from benchmarks.measure import command
from benchmarks.work import machine
from tfagents_batch.config import option


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    rows: int = option(1_000_000, "rows of 10 features, in episodes of 20", least=100)
    values: str = option("neural", "neural or tabular")


def biased(states: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Return probabilities that differ a little from those of the log."""
    first = 0.5 + 0.1 * np.tanh(states[:, :1])
    return np.hstack([first, 1 - first]) * np.ones_like(possible)


def main(flags: Command) -> int:
    """Judge all rows by networks of the other half; print seconds and memory."""
    import tfagents_batch as tfb
    from tfagents_batch.offline import timeline
    from tfagents_batch.offline.reader import open_rows

    with tempfile.TemporaryDirectory() as folder:
        rows, table = f"{folder}/rows.parquet", f"{folder}/table"
        wide_rows.write(rows, flags.rows, 10, 10, length=20)
        with open_rows(rows) as opened:
            config = timeline.TimelineConfig(train_share=0.0, eval_share=1.0)
            timeline.build(opened, opened.find_schema(), config, table)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        start = time.perf_counter()
        found = tfb.evaluate_offline(
            biased, table, settings={"folds": 2, "values": flags.values}
        )
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{flags.rows:,} rows; {machine.summary()}")
    print(f"{seconds:.1f} s, peak {peak:.2f} GB ({before:.2f} GB before)")
    for name, each in found.estimates.items():
        value = each["reward"].value
        print(f"{name:8} {value.value:8.4f} +- {value.std_error:.4f}")
    return 0


if __name__ == "__main__":
    command.run(Command, main)
