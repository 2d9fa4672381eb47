"""Time of whole timeline commands, in Spark and DuckDB: ``benchmarks.spark``."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tempfile
import time

from benchmarks.inside import wide_rows
from benchmarks.measure import command
from benchmarks.work import machine
from tfagents_batch.config import option

DEADLINE = 600  # seconds of a command


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    rows: int = option(1_000_000, "rows, in episodes of 100", least=100)
    features: int = option(10, "features of a row", least=1)
    runs: int = option(1, "runs of each engine", least=1)
    master: str = option("local[1]", "where Spark runs")


def main(flags: Command) -> int:
    """Measure, and print a line for each run; 1 if something failed."""
    with tempfile.TemporaryDirectory() as folder:
        rows, features = f"{folder}/rows.parquet", flags.features
        wide_rows.write(rows, flags.rows, features, features, length=100)
        print(f"{flags.rows:,} rows; {machine.summary()}")
        for run in range(flags.runs):
            for engine in ("spark", "duckdb"):
                arguments = [f"--engine={engine}", f"--spark_master={flags.master}"]
                arguments += [f"--input={rows}", f"--output={folder}/{engine}{run}"]
                script = [sys.executable, "-m", "tfagents_batch", "timeline"]
                start = time.perf_counter()
                done = subprocess.run(
                    [*script, *arguments, "--check=false"],
                    capture_output=True,
                    text=True,
                    timeout=DEADLINE,
                    check=False,
                )
                seconds = time.perf_counter() - start
                print(f"{engine:8} {seconds:6.1f} s", flush=True)
                if done.returncode:
                    print(done.stderr, file=sys.stderr)
                    return 1
    return 0


if __name__ == "__main__":
    command.run(Command, main)
