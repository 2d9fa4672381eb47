"""Logged rows in any form as Parquet files, and the query of all of them.

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
from tfagents_batch.offline.reading.conversion import (
    UNREAD,
    converted,
    is_safe,
    name_of_json,
    unread,
)
from tfagents_batch.offline.reading.dialect import (
    identifier,
    literal,
    literal_paths,
    literals,
)
from tfagents_batch.offline.reading.duckdb_engine import interruptible
from tfagents_batch.offline.schema import ALIAS, PRESENCE, Mode, types
from tfagents_batch.offline.writer import NAMES, check_exact, to_line

_FIRSTS = "json_files"  # table of ``_parse``
# Columns that say where a row came from, and what could not be converted.
ADDED = ("file", "row", "unread")
_SMALL = 64 * 2**20  # bytes; of more, the keys of one line in 100 are read
_CHUNK = 10_000  # rows of a pandas table that are converted at once


class StagedFile(NamedTuple):
    """Parquet file with rows."""

    path: str  # path of the file
    label: str = ""  # text that names the origin of its rows; "" if that is the file
    parsed: bool = False  # True if it is the result of parse


def paths(data: Any) -> list[Path] | None:
    """Return the files of ``data``, see ``files.find``; None if it is in memory."""
    return None if minari_rows.is_name(data) else files.find(data)


def stage(
    connection: duckdb.DuckDBPyConnection,
    data: Any,
    folder: Path,
    mode: Mode,
    extra_columns: tuple[str, ...],
) -> list[StagedFile]:
    """Return the rows as Parquet files, new ones in ``folder`` where necessary.

    The connection keeps the order of insertion, and the folder is empty.
    """
    target = folder / "rows.parquet"
    listed = paths(data)
    if listed is not None:
        parts = [StagedFile(str(x)) for x in listed if files.kind(x) in files.PARQUET]
        lines = [x for x in listed if files.kind(x) in files.JSON]
        if lines:
            _parse(connection, lines, target, mode, extra_columns)
            parts.append(StagedFile(str(target), parsed=True))
        return parts
    label = f"<{type(data).__name__}>"
    if spark_engine.is_frame(data):
        written = spark_engine.write_frame(data, folder, "rows-")
        return [StagedFile(str(path), label) for path in written]
    if isinstance(data, duckdb.DuckDBPyRelation):
        data.to_parquet(str(target))
        return [StagedFile(str(target), label)]
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
        return [StagedFile(str(target), label)]
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
    return [StagedFile(str(target), label, parsed=True)]


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
    Folders such as ``ds=<text>/`` give the column of this name. The table ``_FIRSTS``
    gets the number of the first row of each file, from 0. The connection keeps the
    order of insertion.
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
        expression = converted(value, duckdb.type(raw[name]), type_, name)
        if type_ == "VARCHAR":
            expression = name_of_json(value, f"json->{literal(name)}")
        if name in hive and raw[name] == "VARCHAR":  # as Parquet, the folder decides
            folder = _of_folder(name)
            expression, value = (
                f"coalesce({folder}, {x})" for x in (expression, value)
            )
        failures[name] = f"{column} IS NULL AND {value} IS NOT NULL", value
        columns.append(f"{expression} AS {column}")
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
            FROM read_ndjson_objects({literal_paths(paths)}, ignore_errors=true,
              filename=true)))
    """
    statements = (
        f"COPY ({query}) TO {literal(str(target))}; "
        f"CREATE TABLE {_FIRSTS} AS SELECT file, min(file_row_number) AS first "
        f"FROM read_parquet({literal_paths([target])}) GROUP BY file"
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


def query(
    connection: duckdb.DuckDBPyConnection,
    parts: Sequence[StagedFile],
    mode: Mode,
    extra_columns: tuple[str, ...],
) -> tuple[str, set[str]]:
    """Return the query of all rows in the types of the schema.

    Also the names of columns that it does not read, ``ALIAS`` among them where it
    stands in for ``action_probability``. Files with the same columns are read together.
    UserError if a column has a type without a reading.
    """
    groups: dict[Any, list[StagedFile]] = {}
    for part, structure in zip(parts, _structures(connection, parts), strict=True):
        groups.setdefault((structure, part.label, part.parsed), []).append(part)
    queries, others = [], set()
    for (_, label, parsed), group in groups.items():
        in_memory = bool(label) or parsed
        source = (
            f"read_parquet({literal_paths(part.path for part in group)}, "
            f"hive_partitioning={not in_memory}, hive_types_autocast=false)"
        )
        relation = connection.sql(f"FROM {source}")
        columns = dict(zip(relation.columns, relation.types, strict=True))
        file, row = literal(label) if label else "filename", "file_row_number + 1"
        if parsed:
            names = "SELECT DISTINCT unnest(other_columns) FROM " + source
            others |= {name for (name,) in connection.sql(names).fetchall()}
            file, row = literal(label) if label else "file", f"{row} - first"
            selected = "* EXCLUDE (file, other_columns, first)"
            source += f" JOIN {_FIRSTS} USING (file)"
        else:
            used, selected = _converted(
                connection, source, columns, mode, extra_columns
            )
            others |= columns.keys() - used
        queries.append(
            f"SELECT {selected}, {file} AS file, ({row})::BIGINT AS row FROM {source}"
        )
    return " UNION ALL BY NAME ".join(queries), others


def _structures(connection: Any, parts: Sequence[StagedFile]) -> list[str]:
    """Return for each part a text that is the same for files with the same columns."""
    paths = list(dict.fromkeys(part.path for part in parts))
    rows = connection.execute(
        "SELECT file_name, string_agg(concat(name, ' ', duckdb_type, num_children) "
        "ORDER BY column_id) "
        f"FROM parquet_schema({literal_paths(paths)}) GROUP BY file_name"
    ).fetchall()
    columns = dict(rows)
    hive = re.compile(r"([^/=]+)=[^/]*/")
    return [columns[part.path] + str(hive.findall(part.path)) for part in parts]


def _converted(
    connection: Any,
    source: str,
    columns: dict[str, Any],
    mode: Mode,
    extra_columns: tuple[str, ...],
) -> tuple[set[str], str]:
    """Return the names of the columns that are read, and their SQL expressions."""
    used, selected, failures = set(extra_columns), [], {}
    for name, type_ in types(mode).items():
        own = name
        if name == "action_probability" and name not in columns:
            own = ALIAS
        if own not in columns:
            selected.append(f"NULL::{type_} AS {identifier(name)}")
            continue
        value, flags = identifier(own), ""
        used.add(name)
        if own + PRESENCE in columns:
            used.add(own + PRESENCE)
            flags = identifier(own + PRESENCE)
        try:
            expression = converted(value, columns[own], type_, own, flags)
        except UserError:
            if not _is_empty(connection, source, value):
                raise
            selected.append(f"NULL::{type_} AS {identifier(name)}")
            continue
        if not is_safe(columns[own], type_):
            failed = f"{value} IS NOT NULL AND ({expression}) IS NULL"
            failures[name] = failed, f"to_json({value})"
        if name == "action_probability" and {name, ALIAS} <= columns.keys():
            other = converted(ALIAS, columns[ALIAS], type_, ALIAS)
            expression = f"coalesce({expression}, {other})"
        selected.append(f"{expression} AS {identifier(name)}")
    for name in extra_columns:
        value = identifier(name) if name in columns else "NULL"
        selected.append(f"{value} AS {identifier(name)}")
    selected.append(f"({unread(failures)})::{UNREAD} AS unread")
    return used, ", ".join(selected)


def _is_empty(connection: Any, source: str, value: str) -> bool:
    """Return whether a column is NULL in all rows; then its type means nothing.

    Writers of tables give such columns the type of integers, floats or nothing.
    """
    query = f"SELECT 1 FROM {source} WHERE {value} IS NOT NULL LIMIT 1"
    return not connection.execute(query).fetchall()
