"""JSON lines as Parquet with the types of the schema."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import duckdb

from tfagents_batch.offline.reading.conversion import converted, name_of_json, unread
from tfagents_batch.offline.schema import ALIAS, Mode, types
from tfagents_batch.offline.sql import identifier, literal, literals

FIRSTS = "json_files"  # table of ``parse``
_SMALL = 64 * 2**20  # bytes; of more, the keys of one line in 100 are read


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
    connection.execute(f"COPY ({query}) TO {literal(str(target))}")
    connection.execute(
        f"CREATE TABLE {FIRSTS} AS SELECT file, min(file_row_number) AS first "
        f"FROM read_parquet({literal(str(target))}) GROUP BY file"
    )


def _hive(paths: Sequence[Path]) -> set[str]:
    """Return the names of columns that folders of the paths give."""
    folders = {part for path in paths for part in path.parts[:-1]}
    return {part.partition("=")[0] for part in folders if "=" in part}


def _of_folder(column: str) -> str:
    """Return the SQL of a column's value in the path of its file; else NULL."""
    pattern = f"(?:^|/){re.escape(column)}=([^/]+)/"
    return f"url_decode(nullif(regexp_extract(file, {literal(pattern)}, 1), ''))"
