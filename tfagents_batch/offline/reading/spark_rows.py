"""Logged rows as a view of Spark, which a timeline is made of."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.offline.engines import contents, spark_frames
from tfagents_batch.offline.engines.contents import Content
from tfagents_batch.offline.engines.spark_engine import SparkEngine
from tfagents_batch.offline.engines.spark_sql import SPARK
from tfagents_batch.offline.reading import absent, files
from tfagents_batch.offline.schema import ALIAS, PRESENCE, Mode, Schema, types

VIEW = "logged_rows"
_WHOLE = "tinyint", "smallint", "int", "bigint", "string"
# Types of Spark that a cast reads without loss.
_READABLE = {
    "BIGINT": _WHOLE,
    "DOUBLE": (*_WHOLE, "float", "double", "decimal"),
    "BOOLEAN": ("boolean", "string"),
}


class SparkRows:
    """Logged rows in Spark; a context manager. ``open_rows`` creates them.

    Attributes:
      engine, view, mode, extra_columns, files, notices: as of ``reader.Rows``.
    """

    view = VIEW

    def __init__(
        self,
        session: Any,
        frame: Any,
        mode: Mode,
        extra_columns: tuple[str, ...],
        found: tuple[files.File, ...],
        notices: list[str],
        absent: Collection[str],
    ):
        in_columns = bool(found) and all(
            files.kind(file.path) in files.PARQUET for file in found
        )
        self.engine = SparkEngine(session, in_columns)
        self.mode, self.extra_columns = mode, extra_columns
        self.files, self.notices = found, notices
        self._absent = frozenset(absent)
        frame.createOrReplaceTempView(VIEW)

    def __enter__(self) -> SparkRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.drop(VIEW)

    def check_unchanged(self) -> None:
        """Raise a UserError if a file has changed since it was opened."""
        files.check_unchanged(self.files)

    @functools.cached_property
    def contents(self) -> tuple[Content, ...]:
        """Names that occur in the rows, sorted; the first access reads all rows."""
        query = contents.query(VIEW, self.mode, SPARK, self._absent)
        with self.engine.failing("rows cannot be read"):
            return contents.sorted_contents(self.engine.fetch(query))

    def find_schema(self) -> Schema:
        """Return the schema of the rows; the first call reads all of them."""
        return contents.schema_of(self.contents, self.mode, self.extra_columns)


def open_rows(
    session: Any,
    data: Any,
    mode: Mode = "discrete",
    schema: Schema | None = None,
    *,
    extra_columns: Sequence[str] = (),
) -> SparkRows:
    """Open logged rows in Spark.

    Args:
      session: a ``SparkSession``.
      data: a DataFrame; or a path, glob or folder of JSON lines or Parquet, or a list
        of them; or an address of Parquet with ``://``.
      mode, schema, extra_columns: as of ``reader.open_rows``.

    Raises:
      UserError: if there is no file, or a column has a type without a reading.
    """
    if schema is not None:
        mode, extra_columns = schema.mode, schema.extra_columns
    extra, found = tuple(extra_columns), ()
    engine = SparkEngine(session)
    with engine.failing("rows cannot be read"):
        if spark_frames.is_frame(data):
            frame, file = data, "'<DataFrame>'"
        else:
            frame, found = _read(session, data, mode, extra)
            file = "file"
        selected, notices = _selected(frame, mode, extra)
        selected += [f"{file} AS file", "CAST(NULL AS BIGINT) AS `row`"]
        if found:
            paths = [file.path for file in found]
            notices += files.notices(data) + absent.notices(paths, mode, extra)
        without = types(mode).keys() - set(frame.columns)
        typed = frame.selectExpr(*selected)
        return SparkRows(session, typed, mode, extra, found, notices, without)


def _read(
    session: Any, data: Any, mode: Mode, extra: tuple[str, ...]
) -> tuple[Any, tuple[files.File, ...]]:
    """Return the rows of files, with a column ``file``, and the files."""
    listed = [data] if isinstance(data, (str, Path)) else list(data)
    remote = [str(x) for x in listed if "://" in str(x)]
    local = files.find([x for x in listed if str(x) not in remote]) or []
    kinds = {path: files.kind(path) for path in local}
    tables = [
        spark_frames.address(x) for x, kind in kinds.items() if kind in files.PARQUET
    ]
    lines = [spark_frames.address(x) for x, kind in kinds.items() if kind in files.JSON]
    frames = []
    if tables or remote:
        read = session.read.option("mergeSchema", "true")
        frames.append(read.parquet(*tables, *remote))
    if lines:
        read = session.read.schema(_of_json(mode, extra)).option("mode", "FAILFAST")
        frames.append(read.json(lines))
    # Without folders of partitions, no row needs the expressions that find their names.
    is_divided = bool(remote) or any("/ds=" in str(x.absolute()) for x in local)
    named = []
    for frame in frames:
        columns = [SPARK.name(x) for x in frame.columns if x not in ("file", "ds")]
        path = "url_decode(_metadata.file_path)"
        file = f"regexp_replace({path}, '^file:/+', '/')"
        folder = "regexp_extract(_metadata.file_path, '/ds=([^/]+)/', 1)"
        ds = f"nullif(url_decode({folder}), '')" if is_divided else "NULL"
        if "ds" in frame.columns:
            ds = f"coalesce({ds}, CAST(ds AS STRING))"
        named.append(frame.selectExpr(*columns, f"{ds} AS ds", f"{file} AS file"))
    frame = named[0]
    for other in named[1:]:
        frame = frame.unionByName(other, allowMissingColumns=True)
    return frame, tuple(map(files.state, local))


def _of_json(mode: Mode, extra: tuple[str, ...]) -> str:
    """Return the columns of JSON lines; the keys of an object are strings there."""
    columns = {
        name: SPARK.type(kind.replace("MAP(BIGINT", "MAP(VARCHAR"))
        for name, kind in types(mode).items()
    }
    columns |= {ALIAS: "DOUBLE", **dict.fromkeys(extra, "STRING")}
    return ", ".join(f"{SPARK.name(name)} {kind}" for name, kind in columns.items())


def _selected(
    frame: Any, mode: Mode, extra: tuple[str, ...]
) -> tuple[list[str], list[str]]:
    """Return expressions of all columns in their types, and notices."""
    columns, found, notices = dict(frame.dtypes), [], []
    known = types(mode)
    for name, kind in known.items():
        target, value = SPARK.type(kind), "NULL"
        if name in columns:
            flags = SPARK.name(name + PRESENCE) if name + PRESENCE in columns else ""
            value = _converted(SPARK.name(name), columns[name], kind, name, flags)
        if name == "action_probability" and ALIAS in columns:
            value = f"coalesce({value}, {SPARK.name(ALIAS)})"
            if name not in columns:
                notices.append(f"column {ALIAS} is read as action_probability")
        found.append(f"CAST({value} AS {target}) AS {SPARK.name(name)}")
    for name in extra:
        value = SPARK.name(name) if name in columns else "NULL"
        found.append(f"{value} AS {SPARK.name(name)}")
    flags = {name + PRESENCE for name in known}
    others = sorted(columns.keys() - known.keys() - {*extra, ALIAS, "file"} - flags)
    if others:
        notices.append(f"columns without a meaning are left out: {', '.join(others)}")
    return found, notices


def _converted(value: str, source: str, kind: str, column: str, flags: str) -> str:
    """Return a value that a cast gives the type ``kind``; ``source`` is Spark's type.

    Args:
      flags: column that says which entries of a list are present; "" for all.
    """
    if kind == "VARCHAR" and "<" not in source:
        return value
    if source.partition("(")[0] in _READABLE.get(kind, ()):
        return value
    if kind.endswith("[]") and source.startswith("array<"):
        item = _converted("item", source[6:-1], kind[:-2], column, "")
        return value if item == "item" else f"transform({value}, item -> {item})"
    if kind.startswith("MAP"):
        if source.startswith("map<"):
            return value
        if source.startswith("array<struct<"):
            return f"map_from_entries({value})"
        if source.startswith("array<") and "<" not in source[6:]:
            keys = f"sequence(0, size({value}) - 1)"
            pairs = f"arrays_zip({keys}, {value}{', ' + flags if flags else ''})"
            if flags:
                pairs = f"filter({pairs}, pair -> pair[2])"
            pairs = f"transform({pairs}, pair -> struct(pair[0], pair[1]))"
            empty = f"CAST(map() AS {SPARK.type(kind)})"
            found = f"map_from_entries({pairs})"
            return f"CASE WHEN size({value}) = 0 THEN {empty} ELSE {found} END"
    raise UserError(
        f"column {column} has the type {source} in Spark; expected {SPARK.type(kind)}. "
        "If it holds the features of an action, pass mode='parametric' or "
        "'continuous'; otherwise convert it"
    )
