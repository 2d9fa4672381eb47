"""Query that gives Parquet files with any columns the types of the schema."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import duckdb

from tfagents_batch.errors import UserError
from tfagents_batch.offline.reading.conversion import UNREAD, converted, is_safe, unread
from tfagents_batch.offline.reading.dialect import identifier, literal, literals
from tfagents_batch.offline.reading.staging import FIRSTS, Part
from tfagents_batch.offline.schema import ALIAS, PRESENCE, Mode, types

# Columns that say where a row came from, and what could not be converted.
ADDED = ("file", "row", "unread")


def query(
    connection: duckdb.DuckDBPyConnection,
    parts: Sequence[Part],
    mode: Mode,
    extra_columns: tuple[str, ...],
) -> tuple[str, set[str]]:
    """Return the query of all rows, and names of columns that it does not read.

    Files with the same columns are read together. ``ALIAS`` is among the names where it
    stands in for ``action_probability``.

    Raises:
      UserError: if a column has a type without a reading.
    """
    groups: dict[Any, list[Part]] = {}
    for part, structure in zip(parts, _structures(connection, parts), strict=True):
        groups.setdefault((structure, part.label, part.parsed), []).append(part)
    queries, others = [], set()
    for (_, label, parsed), group in groups.items():
        in_memory = bool(label) or parsed
        source = (
            f"read_parquet({literals(part.path for part in group)}, "
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
            source += f" JOIN {FIRSTS} USING (file)"
        else:
            used, selected = _converted(
                connection, source, columns, mode, extra_columns
            )
            others |= columns.keys() - used
        queries.append(
            f"SELECT {selected}, {file} AS file, ({row})::BIGINT AS row FROM {source}"
        )
    return " UNION ALL BY NAME ".join(queries), others


def _structures(connection: Any, parts: Sequence[Part]) -> list[str]:
    """Return for each part a text that is the same for files with the same columns."""
    paths = list(dict.fromkeys(part.path for part in parts))
    found = connection.execute(
        "SELECT file_name, string_agg(concat(name, ' ', duckdb_type, num_children) "
        "ORDER BY column_id) "
        f"FROM parquet_schema({literals(paths)}) GROUP BY file_name"
    ).fetchall()
    columns = dict(found)
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
            found = converted(value, columns[own], type_, own, flags)
        except UserError:
            if not _is_empty(connection, source, value):
                raise
            selected.append(f"NULL::{type_} AS {identifier(name)}")
            continue
        if not is_safe(columns[own], type_):
            failed = f"{value} IS NOT NULL AND ({found}) IS NULL"
            failures[name] = failed, f"to_json({value})"
        if name == "action_probability" and {name, ALIAS} <= columns.keys():
            other = converted(ALIAS, columns[ALIAS], type_, ALIAS)
            found = f"coalesce({found}, {other})"
        selected.append(f"{found} AS {identifier(name)}")
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
