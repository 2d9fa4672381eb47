"""Logged rows in any form as Parquet files that a query can read again and again.

Parquet files stay where they are. Everything else is written to a temporary folder
once: JSON is parsed once, an iterable can be read only once, and what was copied does
not change any more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow

from tfagents_batch.errors import UserError
from tfagents_batch.offline.reading import files, minari_rows, spark_engine
from tfagents_batch.offline.reading.conversion import converted, name_of_json, unread
from tfagents_batch.offline.reading.dialect import identifier, literal, literals
from tfagents_batch.offline.reading.duckdb_engine import interruptible
from tfagents_batch.offline.schema import ALIAS, Mode, types
from tfagents_batch.offline.writer import NAMES, check_exact, to_line

FIRSTS = "json_files"  # table of ``parse``
_SMALL = 64 * 2**20  # bytes; of more, the keys of one line in 100 are read
_CHUNK = 10_000  # rows of a pandas table that are converted at once


class Part(NamedTuple):
    """Parquet file with rows."""

    path: str  # the file
    # Text that names the origin of its rows; "" if that is the file itself
    label: str = ""
    parsed: bool = False  # True if it is the result of parse


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
    if spark_engine.is_frame(data):
        written = spark_engine.write_frame(data, folder, "rows-")
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
        interruptible(connection, lambda: connection.execute(copy))
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
    interruptible(connection, lambda: parse(connection, *arguments))


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


def parse(
    connection: duckdb.DuckDBPyConnection,
    paths: Sequence[Path],
    target: Path,
    mode: Mode,
    extra_columns: tuple[str, ...],
) -> None:
    """Parse files of JSON lines into one Parquet file with the types of the schema.

    Further columns of it are ``file``; ``unread``, a map from the names of columns
    whose value could not be converted to that value (the key "" stands for a line that
    is no JSON object); and ``other_columns``, names that the schema lacks, of a sample.
    Folders such as ``ds=<text>/`` give the column of this name. The table ``FIRSTS``
    gets the number of the first row of each file, from 0.

    Args:
      connection: keeps the order of insertion.
      paths: files to read.
      target: file to write.
      mode, extra_columns: as in a ``Schema``.
    """
    known, hive = types(mode), _hive(paths)
    raw = {
        name: "JSON" if type_.startswith("MAP") or "[]" in type_ else "VARCHAR"
        for name, type_ in [*known.items(), (ALIAS, "DOUBLE")]
    }
    structure = json.dumps(raw | dict.fromkeys(extra_columns, "JSON"))
    is_small = sum(path.stat().st_size for path in paths) < _SMALL
    columns, failures = [], {"": ("not_object", "json")}
    for name, type_ in known.items():
        value, column = f"r.{identifier(name)}", identifier(name)
        if name == "action_probability":
            value = f"coalesce({value}, r.{ALIAS})"
        found = converted(value, duckdb.type(raw[name]), type_, name)
        if type_ == "VARCHAR":
            found = name_of_json(value, f"json->{literal(name)}")
        if name in hive and raw[name] == "VARCHAR":  # as Parquet, the folder decides
            folder = _of_folder(name)
            found, value = (f"coalesce({folder}, {x})" for x in (found, value))
        failures[name] = f"{column} IS NULL AND {value} IS NOT NULL", value
        columns.append(f"{found} AS {column}")
    columns += [f"r.{identifier(name)}" for name in extra_columns]
    others = f"""
          CASE WHEN hash(json) % {1 if is_small else 100} = 0 THEN
            list_filter(json_keys(json),
              lambda k: NOT list_contains({literals([*known, *extra_columns])}, k))
          END AS other_columns"""
    # Two steps, so that each value is converted once.
    query = f"""
        SELECT * EXCLUDE (r, json, not_object), {unread(failures)} AS unread
        FROM (SELECT {", ".join(columns)}, file, r, json, not_object, {others}
          FROM (SELECT json, json_transform(json, {literal(structure)}) AS r,
              coalesce(left(json, 1) <> '{{', true) AS not_object, filename AS file
            FROM read_ndjson_objects({literals(map(str, paths))}, ignore_errors=true,
              filename=true)))
    """
    statements = (
        f"COPY ({query}) TO {literal(str(target))}; "
        f"CREATE TABLE {FIRSTS} AS SELECT file, min(file_row_number) AS first "
        f"FROM read_parquet({literal(str(target))}) GROUP BY file"
    )
    connection.execute(statements)


def _hive(paths: Sequence[Path]) -> set[str]:
    """Return the names of columns that folders of the paths give."""
    folders = {part for path in paths for part in path.parts[:-1]}
    return {part.partition("=")[0] for part in folders if "=" in part}


def _of_folder(column: str) -> str:
    """Return the SQL of a column's value in the path of its file; else NULL."""
    pattern = f"(?:^|/){re.escape(column)}=([^/]+)/"
    return f"url_decode(nullif(regexp_extract(file, {literal(pattern)}, 1), ''))"
