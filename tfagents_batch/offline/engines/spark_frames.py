"""Data frames of Spark as Parquet files that this process can read."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.offline import publish


def is_frame(data: Any) -> bool:
    """Return whether data is a DataFrame of Spark, also of Spark Connect."""
    kind = type(data)
    return kind.__module__.startswith("pyspark.") and kind.__name__ == "DataFrame"


def address(path: Path) -> str:
    """Return a path as Spark wants it: without escapes such as ``%20``."""
    return f"file://{path.absolute()}"


def write(frame: Any, folder: Path, prefix: str, **options: Any) -> list[Path]:
    """Write a DataFrame as Parquet files into a folder of this machine.

    Args:
      frame: the DataFrame.
      folder: the folder; Spark must see it under the same path.
      prefix: beginning of the names of the files.
      **options: of Spark's writer.

    Returns:
      The files.

    Raises:
      UserError: if rows are missing there, because other machines wrote them.
    """
    from pyarrow import parquet
    from pyspark.sql import Observation, functions

    counted = Observation(f"rows_{secrets.token_hex(4)}")
    frame = frame.observe(counted, functions.count(functions.lit(1)).alias("rows"))
    target = folder.absolute() / "_spark"
    try:
        writer = frame.write.mode("overwrite").options(**options)
        writer.parquet(address(target))
        parts = []
        for i, path in enumerate(sorted(target.glob("part-*.parquet"))):
            parts.append(path.rename(folder / f"{prefix}{i}.parquet"))
    finally:
        shutil.rmtree(target, ignore_errors=True)
    rows = sum(parquet.read_metadata(path).num_rows for path in parts)
    if rows != counted.get["rows"]:
        raise UserError(
            f"Spark wrote {counted.get['rows']:,} rows, but {rows:,} are in {folder}; "
            "expected a folder that all machines of the cluster share. Pass such a "
            "folder"
        )
    return parts


@contextlib.contextmanager
def files_of(frame: Any, folder: Path) -> Iterator[list[Path]]:
    """Yield a DataFrame as Parquet files, which are removed at the end.

    Args:
      frame: the DataFrame.
      folder: folder that Spark sees under the same path; created if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with publish.temporary(folder, "rows") as target:
        yield write(frame, target, "rows-")
