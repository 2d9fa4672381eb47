"""Logged rows in any form as Parquet files that a query can read again and again.

Parquet files stay where they are. Everything else is written to a temporary folder
once: JSON is parsed once, an iterable can be read only once, and what was copied does
not change any more.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow

from tfagents_batch.errors import UserError
from tfagents_batch.offline.lines import to_line
from tfagents_batch.offline.reading import minari_rows
from tfagents_batch.offline.reading.conversion import converted, unread
from tfagents_batch.offline.schema import Mode, types
from tfagents_batch.offline.sql import identifier, literal, literals

JSON = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
COMPRESSED = (".gz", ".zst")
ALIAS = "propensity"  # name of action_probability in SQL of Horizon
_SMALL = 4 * 2**20  # bytes; of longer files, the keys of one line in 100 are read
_CHUNK = 10_000  # rows of a pandas table that are converted at once


class Part(NamedTuple):
    """Parquet file with rows.

    Attributes:
      path: the file.
      label: text that names its origin; "" if the file itself has the rows.
      parsed: True if it has the types of the schema and the columns ``file``,
        ``unread`` and ``other_columns``, see ``parse_json``.
    """

    path: str
    label: str = ""
    parsed: bool = False


def files(data: Any) -> list[Path] | None:
    """Return the files of a path, a glob, a folder or a list of them; None for others.

    In a folder, files and folders whose names begin with a dot or an underscore are
    left out: they are being written.

    Raises:
      UserError: if there is none, or if one is of an unknown kind.
    """
    if isinstance(data, str) and data.startswith(minari_rows.PREFIX):
        return None
    if isinstance(data, (str, Path)):
        data = [data]
    is_list = isinstance(data, (list, tuple)) and data
    if not is_list or not all(isinstance(each, (str, Path)) for each in data):
        return None
    found = [file for each in data for file in _files(Path(each).expanduser())]
    return list(dict.fromkeys(found))


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
    paths = files(data)
    if paths is not None:
        return [
            Part(str(path))
            if kind(path) in PARQUET
            else parse_json(
                connection,
                path,
                folder / f"{number:06}.parquet",
                mode,
                extra_columns,
            )
            for number, path in enumerate(paths)
        ]
    target = folder / "rows.parquet"
    label = f"<{type(data).__name__}>"
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
        connection.execute(f"COPY (FROM given) TO {literal(str(target))}")
        connection.unregister("given")
        return [Part(str(target), label)]
    if isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Iterable):
        raise UserError(
            f"rows cannot be read from {data!r:.200}; expected a path, a list of "
            "paths, an Arrow, pandas or polars table, a DuckDB relation, a Minari "
            "dataset or an iterable of rows, each a dict"
        )
    lines = folder / "rows.jsonl"
    _write(lines, data)
    part = parse_json(connection, lines, target, mode, extra_columns, label)
    lines.unlink()
    return [part]


def kind(path: Path) -> str:
    """Return the suffix that says how a file is read, such as ``.jsonl``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        return suffixes[-2] if suffixes[-2:-1] and suffixes[-2] in JSON else ""
    return suffixes[-1] if suffixes and suffixes[-1] in JSON + PARQUET else ""


def parse_json(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    target: Path,
    mode: Mode,
    extra_columns: tuple[str, ...],
    label: str = "",
) -> Part:
    """Parse a file of JSON lines into a Parquet file with the types of the schema.

    Further columns are ``file``; ``unread``, a map from the names of columns whose
    value could not be converted to that value (the key "" stands for a line that is no
    JSON object); and ``other_columns``, names that the schema lacks, of a sample.
    """
    known = types(mode)
    raw = {
        name: "JSON" if type_.startswith("MAP") or "[]" in type_ else "VARCHAR"
        for name, type_ in [*known.items(), (ALIAS, "DOUBLE")]
    }
    structure = json.dumps(raw | dict.fromkeys(extra_columns, "JSON"))
    source = f"read_ndjson_objects({literal(str(path))}, ignore_errors=true)"
    every = 1 if path.stat().st_size < _SMALL else 100
    columns, failures = [], {"": ("not_object", "json")}
    for name, type_ in known.items():
        value = f"r.{identifier(name)}"
        if name == "action_probability":
            value = f"coalesce({value}, r.{ALIAS})"
        found = converted(value, duckdb.type(raw[name]), type_, name)
        if name == "action" and mode == "discrete":  # an object is none, not a name
            found = f"CASE WHEN left({value}, 1) NOT IN ('{{', '[') THEN {value} END"
        if found != value:
            failures[name] = f"{value} IS NOT NULL AND {found} IS NULL", value
        columns.append(f"{found} AS {identifier(name)}")
    columns += [f"r.{identifier(name)}" for name in extra_columns]
    query = f"""
        SELECT {", ".join(columns)}, {literal(label or str(path))} AS file,
          {unread(failures)} AS unread,
          CASE WHEN hash(json) % {every} = 0 THEN list_filter(json_keys(json),
            lambda k: NOT list_contains({literals([*known, *extra_columns])}, k))
          END AS other_columns
        FROM (SELECT json, json_transform(json, {literal(structure)}) AS r,
            coalesce(left(json, 1) <> '{{', true) AS not_object FROM {source})
    """
    connection.execute(f"COPY ({query}) TO {literal(str(target))}")
    return Part(str(target), parsed=True)


def _files(path: Path) -> list[Path]:
    """Return the files of a path, a glob or a folder."""
    if path.is_dir():
        found = sorted(x for x in path.rglob("*") if kind(x) and x.is_file())
        found = [x for x in found if not _is_hidden(x.relative_to(path))]
    elif path.exists():
        found = [path]
    else:
        found = sorted(Path(x) for x in glob.glob(str(path), recursive=True))
        found = [x for x in found if x.is_file()]
    if not found:
        what = "has no files of rows" if path.is_dir() else "does not exist"
        raise UserError(
            f"{path} {what}; expected a file, a folder or a glob of "
            f"{', '.join(JSON + PARQUET)} files"
        )
    for file in found:
        if not kind(file):
            raise UserError(
                f"{file} is no file of rows; expected one of {', '.join(JSON)} (also "
                f"with {' or '.join(COMPRESSED)}) or {', '.join(PARQUET)}"
            )
    return found


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _records(table: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a pandas table; missing values become None."""
    for start in range(0, len(table), _CHUNK):
        chunk = table.iloc[start : start + _CHUNK].astype(object)
        yield from chunk.where(chunk.notna(), None).to_dict("records")


def _write(path: Path, data: Iterable[Any]) -> None:
    with path.open("w") as file:
        for row in data:
            file.write(to_line(row) + "\n")
