"""Logged rows as a view of Spark, which a timeline is made of."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
from pyarrow import parquet

from tfagents_batch.errors import UserError, first_line
from tfagents_batch.offline.reading import contents, files, spark_engine
from tfagents_batch.offline.reading.contents import Content
from tfagents_batch.offline.reading.dialect import SPARK
from tfagents_batch.offline.reading.spark_conversion import converted, type_in_json
from tfagents_batch.offline.reading.spark_engine import SparkEngine
from tfagents_batch.offline.schema import ALIAS, ALIASED, PRESENCE, Mode, Schema, types

VIEW = "logged_rows"


class SparkRows:
    """Logged rows in Spark, as ``reader.LoggedRows``; ``open_rows`` creates them."""

    view = VIEW

    def __init__(
        self,
        session: Any,
        frame: Any,
        mode: Mode,
        extra_columns: tuple[str, ...],
        opened: tuple[files.File, ...],
        notices: list[str],
        absent: Collection[str],
    ):
        kinds = {files.kind(file.path) for file in opened}
        in_columns = bool(kinds) and kinds <= {*files.PARQUET}
        self.engine = SparkEngine(session, in_columns)
        self.mode, self.extra_columns = mode, extra_columns
        self.files, self.notices = opened, notices
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
    """Open logged rows in a ``SparkSession``, see ``reader.open_rows``.

    The data are a DataFrame; or a path, glob or folder of JSON lines or Parquet, or a
    list of them; or an address of Parquet with ``://``.
    """
    if schema is not None:
        mode, extra_columns = schema.mode, schema.extra_columns
    extra, opened = tuple(extra_columns), ()
    engine = SparkEngine(session)
    with engine.failing("rows cannot be read"):
        if spark_engine.is_frame(data):
            parts = [_SparkPart(data, "'<DataFrame>'")]
        else:
            parts, opened = _read(session, data, mode, extra)
        selected = [_selected(part, mode, extra) for part in parts]
        typed = functools.reduce(lambda one, other: one.unionAll(other), selected)
        columns = {name for part in parts for name in part.frame.columns}
        notices = _notices(columns, mode, extra)
        if opened:
            paths = [file.path for file in opened]
            notices += files.notices(data)

            def has(name: str) -> bool:
                some = typed.where(f"{SPARK.name(name)} IS NOT NULL")
                return bool(some.limit(1).count())

            notices += files.absent_columns(paths, mode, extra, has)
        without = types(mode).keys() - columns
        return SparkRows(session, typed, mode, extra, opened, notices, without)


class _SparkPart(NamedTuple):
    """Rows that have the same columns."""

    frame: Any  # the rows
    file: str  # expression of the file of a row
    folder: str = ""  # expression of the ds that the folder of a row gives; "" for none


def _read(
    session: Any, data: Any, mode: Mode, extra: tuple[str, ...]
) -> tuple[list[_SparkPart], tuple[files.File, ...]]:
    """Return the rows of files, those with the same columns together, and the files."""
    listed = [data] if isinstance(data, (str, Path)) else list(data)
    remote = [str(x) for x in listed if "://" in str(x)]
    local = files.find([x for x in listed if str(x) not in remote]) or []
    kinds = {path: files.kind(path) for path in local}
    tables: dict[str, list[str]] = {}
    for path in (x for x, kind in kinds.items() if kind in files.PARQUET):
        tables.setdefault(_columns(path), []).append(spark_engine.address(path))
    lines = [spark_engine.address(x) for x, kind in kinds.items() if kind in files.JSON]
    frames = [session.read.parquet(*paths) for paths in tables.values()]
    if remote:
        read = session.read.option("mergeSchema", "true")
        frames.append(read.parquet(*remote))
    if lines:
        read = session.read.schema(_of_json(mode, extra)).option("mode", "FAILFAST")
        frames.append(read.json(lines))
    file = "regexp_replace(url_decode(_metadata.file_path), '^file:/+', '/')"
    # Without folders of partitions, no row needs the expressions that find their names.
    is_divided = bool(remote) or any("/ds=" in str(x.absolute()) for x in local)
    folder = "regexp_extract(_metadata.file_path, '/ds=([^/]+)/', 1)"
    folder = f"nullif(url_decode({folder}), '')" if is_divided else ""
    opened = tuple(map(files.state, local))
    return [_SparkPart(frame, file, folder) for frame in frames], opened


def _columns(path: Path) -> str:
    """Return a text that is the same for files with the same columns."""
    try:
        return parquet.read_schema(path).remove_metadata().to_string()
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path} cannot be read: {first_line(error)}") from error


def _of_json(mode: Mode, extra: tuple[str, ...]) -> str:
    """Return the columns of JSON lines, in types that lose nothing."""
    columns = {name: type_in_json(kind) for name, kind in types(mode).items()}
    columns |= {ALIAS: "STRING", **dict.fromkeys(extra, "STRING")}
    return ", ".join(f"{SPARK.name(name)} {kind}" for name, kind in columns.items())


def _selected(part: _SparkPart, mode: Mode, extra: tuple[str, ...]) -> Any:
    """Return rows with all columns in their types."""
    columns = []
    for name, kind in types(mode).items():
        value = _converted(part, name, kind)
        if name == "action_probability" and ALIAS in part.frame.columns:
            value = f"coalesce({value}, {_converted(part, ALIAS, kind)})"
        if name == "ds" and part.folder:
            value = f"coalesce({part.folder}, {value})"
        columns.append(f"{value} AS {SPARK.name(name)}")
    for name in extra:
        value = SPARK.name(name) if name in part.frame.columns else "NULL"
        columns.append(f"{value} AS {SPARK.name(name)}")
    columns += [f"{part.file} AS file", "CAST(NULL AS BIGINT) AS `row`"]
    return part.frame.selectExpr(*columns)


def _converted(part: _SparkPart, name: str, kind: str) -> str:
    """Return the expression of a column in its type."""
    columns, value = part.frame.schema, SPARK.name(name)
    null = f"CAST(NULL AS {SPARK.type(kind)})"
    if name not in part.frame.columns:
        return null
    source = columns[name].dataType
    flags = SPARK.name(name + PRESENCE) if name + PRESENCE in columns.names else ""
    try:
        return converted(value, source, kind, name, flags)
    except UserError:
        # The type of a column, or of lists, without values means nothing.
        is_list = source.typeName() == "array"
        some = f"size({value}) > 0" if is_list else f"{value} IS NOT NULL"
        if part.frame.where(some).limit(1).count():
            raise
        empty = f"CAST(array() AS {SPARK.type(kind)})"
        is_kept = is_list and kind.endswith("[]")
        return f"CASE WHEN {value} IS NOT NULL THEN {empty} END" if is_kept else null


def _notices(columns: set[str], mode: Mode, extra: tuple[str, ...]) -> list[str]:
    known, notices = types(mode), []
    if ALIAS in columns:
        notices.append(ALIASED)
    others = columns - known.keys() - {*extra, ALIAS, "file"}
    others -= {name + PRESENCE for name in known}
    if others:
        names = ", ".join(sorted(others))
        notices.append(f"columns without a meaning are left out: {names}")
    return notices
