"""Logged rows in any form as Parquet files that a query can read again and again.

Parquet files stay where they are. Everything else is written to a temporary folder
once: JSON is parsed once, an iterable can be read only once, and what was copied does
not change any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow

from tfagents_batch.errors import UserError
from tfagents_batch.offline import interruptible
from tfagents_batch.offline.engines import spark_frames
from tfagents_batch.offline.lines import NAMES, check_exact, to_line
from tfagents_batch.offline.reading import files, json_lines, minari_rows
from tfagents_batch.offline.schema import Mode
from tfagents_batch.offline.sql import literal

_CHUNK = 10_000  # rows of a pandas table that are converted at once


class Part(NamedTuple):
    """Parquet file with rows.

    Attributes:
      path: the file.
      label: text that names the origin of its rows; "" if that is the file itself.
      parsed: True if it is the result of ``json_lines.parse``.
    """

    path: str
    label: str = ""
    parsed: bool = False


def paths(data: Any) -> list[Path] | None:
    """Return the files of ``data``, see ``files.find``; None if it is in memory."""
    is_minari = isinstance(data, str) and data.startswith(minari_rows.PREFIX)
    return None if is_minari else files.find(data)


def stage(
    connection: duckdb.DuckDBPyConnection,
    data: Any,
    folder: Path,
    mode: Mode,
    extra_columns: tuple[str, ...],
) -> list[Part]:
    """Return the rows as Parquet files, new ones in ``folder`` where necessary.

    Args:
      connection: keeps the order of insertion.
      data: what ``reader.open_rows`` accepts.
      folder: an empty folder.
      mode, extra_columns: as in a ``Schema``.
    """
    target = folder / "rows.parquet"
    found = paths(data)
    if found is not None:
        parts = [Part(str(x)) for x in found if files.kind(x) in files.PARQUET]
        lines = [x for x in found if files.kind(x) in files.JSON]
        if lines:
            _parse(connection, lines, target, mode, extra_columns)
            parts.append(Part(str(target), parsed=True))
        return parts
    label = f"<{type(data).__name__}>"
    if spark_frames.is_frame(data):
        written = spark_frames.write(data, folder, "rows-")
        return [Part(str(path), label) for path in written]
    if isinstance(data, duckdb.DuckDBPyRelation):
        data.to_parquet(str(target))
        return [Part(str(target), label)]
    if isinstance(data, str):  # only a name of Minari comes here
        data = minari_rows.load(data.removeprefix(minari_rows.PREFIX))
    if minari_rows.is_dataset(data):
        data = minari_rows.rows(data, mode)
    elif hasattr(data, "to_dict") and hasattr(data, "iterrows"):  # pandas
        data = _records(data)
    elif hasattr(data, "to_arrow") or hasattr(data, "__arrow_c_stream__"):
        table = data.to_arrow() if hasattr(data, "to_arrow") else data  # polars
        connection.register("given", pyarrow.RecordBatchReader.from_stream(table))
        copy = f"COPY (FROM given) TO {literal(str(target))}"
        interruptible.run(connection, lambda: connection.execute(copy))
        connection.unregister("given")
        return [Part(str(target), label)]
    if isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Iterable):
        raise UserError(
            f"rows cannot be read from {data!r:.200}; expected a path, a list of "
            "paths, an Arrow, pandas or polars table, a DuckDB relation, a DataFrame "
            "of Spark, a Minari dataset or an iterable of rows, each a dict"
        )
    lines = folder / "rows.jsonl"
    with lines.open("w") as file:
        file.writelines(f"{to_line(row)}\n" for row in data)
    _parse(connection, [lines], target, mode, extra_columns)
    lines.unlink()
    return [Part(str(target), label, parsed=True)]


def _parse(connection: duckdb.DuckDBPyConnection, *arguments: Any) -> None:
    """Parse JSON as ``json_lines.parse`` does; signals end it."""
    interruptible.run(connection, lambda: json_lines.parse(connection, *arguments))


def _records(table: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a pandas table; missing values become None."""
    for name in {*NAMES} & {*table.columns}:  # rows do not show how precise they are
        dtype = getattr(table[name].dtype, "numpy_dtype", table[name].dtype)
        if dtype in (np.float16, np.float32):
            numbers = np.abs(table[name].to_numpy(dtype, na_value=np.nan))
            largest = np.max(numbers, initial=0, where=np.isfinite(numbers))
            check_exact(f"column {name}", largest)
    for start in range(0, len(table), _CHUNK):
        chunk = table.iloc[start : start + _CHUNK].astype(object)
        yield from chunk.where(chunk.notna(), None).to_dict("records")
