"""Logged rows of any form as one view of a DuckDB connection."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfagents_batch.errors import UserError, headline
from tfagents_batch.offline.reading import contents
from tfagents_batch.offline.reading.contents import Content
from tfagents_batch.offline.reading.dialect import DUCKDB, literal
from tfagents_batch.offline.reading.files import File
from tfagents_batch.offline.schema import ALIAS, ALIASED, Mode, Schema, types

try:
    import duckdb

    from tfagents_batch.offline.publish import Scratch
    from tfagents_batch.offline.reading import files, staging
    from tfagents_batch.offline.reading.duckdb_engine import DuckDBEngine, interruptible
except ImportError as error:
    raise UserError(
        f"logged rows need DuckDB and PyArrow ({error}); "
        'pip install "tfagents_batch[offline]"'
    ) from error

VIEW = "rows"


class LoggedRows:
    """Logged rows; a context manager. ``open_rows`` creates them.

    Attributes:
      connection: DuckDB connection with limits on threads and memory.
      view: name of a view with all columns of ``schema.types(mode)`` and the extra
        columns, and these: ``file`` VARCHAR and ``row`` BIGINT, counted from 1, say
        where a row came from; ``unread`` MAP(VARCHAR, VARCHAR) has the values that
        could not be converted to the type of their column, else NULL.
      mode: kind of actions, see ``Schema``.
      extra_columns: names of further columns of the view.
      unknown_columns: names of columns of the data that the view leaves out.
      files: the files that were read; empty if the data were in memory.
      notices: lines for the user.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        folder: Scratch,
        mode: Mode,
        extra_columns: tuple[str, ...],
        files: tuple[File, ...],
    ):
        self.connection, self.view, self.mode = connection, VIEW, mode
        self.extra_columns, self.files = extra_columns, files
        self.unknown_columns: tuple[str, ...] = ()
        self.notices: list[str] = []
        self._folder = folder

    def __enter__(self) -> LoggedRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and delete temporary files; may be called again."""
        self.connection.close()
        self._folder.close()

    def fetch(self, query: str) -> list[tuple]:
        """Return the result of a query.

        UserError if a file cannot be read, or changed meanwhile.
        """
        try:
            return interruptible(
                self.connection, lambda: self.connection.execute(query).fetchall()
            )
        except duckdb.Error as error:
            self.check_unchanged()
            raise UserError(f"rows cannot be read: {headline(error)}") from error

    def write(self, query: str, path: Path) -> None:
        """Write the result of a query to a Parquet file; OSError if that fails."""
        copy = f"COPY ({query}) TO {literal(str(path))} (FORMAT parquet)"
        try:
            self.fetch(copy)
        except UserError as error:
            if isinstance(error.__cause__, duckdb.IOException):
                raise OSError(headline(error.__cause__)) from error
            raise

    def check_unchanged(self) -> None:
        """Raise a UserError if a file has changed since it was opened."""
        files.check_unchanged(self.files)

    @functools.cached_property
    def engine(self) -> DuckDBEngine:
        """Engine of the timeline on these rows."""
        return DuckDBEngine(self.connection)

    @functools.cached_property
    def contents(self) -> tuple[Content, ...]:
        """Names that occur in the rows, sorted; the first access reads all rows."""
        return contents.sorted_contents(
            self.fetch(contents.query(self.view, self.mode, DUCKDB))
        )

    def find_schema(self) -> Schema:
        """Return the schema of the rows; the first call reads all of them.

        Names of actions that are all integers are sorted as numbers, others as text.
        """
        return contents.schema_of(self.contents, self.mode, self.extra_columns)


def open_rows(
    data: Any,
    mode: Mode = "discrete",
    schema: Schema | None = None,
    *,
    extra_columns: Sequence[str] = (),
    threads: int | None = None,
    memory: str = "2GB",
) -> LoggedRows:
    """Open logged rows.

    Args:
      data: path, glob or folder of JSON lines or Parquet, or a list of them; an Arrow,
        pandas or polars table; a DuckDB relation; a DataFrame of Spark; a Minari
        dataset or ``"minari:<name>"``; or an iterable of rows, each a dict. Hive
        folders ``ds=<text>/`` give the column ``ds``.
      mode: kind of actions, see ``Schema``; that of ``schema``, if given.
      schema: expected schema; its extra columns are part of the view.
      extra_columns: names of further columns of the view, if there is no ``schema``.
      threads: of DuckDB; None for one per processor.
      memory: limit of DuckDB, such as "2GB"; larger queries use temporary files.

    Returns:
      ``LoggedRows``, to be closed. Values that have no reading are NULL there, and the
      validator lists them.

    Raises:
      UserError: if there is no file, a file cannot be read or changes meanwhile, or a
        column has a type without a reading.
    """
    if isinstance(data, (list, tuple)) and len(data) == 1 and isinstance(data[0], str):
        (data,) = data  # also minari:<name>
    if schema is not None:
        mode, extra_columns = schema.mode, schema.extra_columns
    extra = tuple(extra_columns)
    for name in extra:
        if name in staging.ADDED or name in types(mode):
            raise UserError(
                f"the extra column {name!r} has the name of another column; rename it"
            )
    paths = staging.paths(data)
    states = tuple(files.state(path) for path in paths or ())
    folder = Scratch()
    limits: dict[str, Any] = {"memory_limit": memory, "temp_directory": folder.name}
    limits |= {} if threads is None else {"threads": threads}
    connection = duckdb.connect(config=limits)
    rows = LoggedRows(connection, folder, mode, extra, states)
    try:
        try:
            source = data if paths is None else paths
            parts = staging.stage(connection, source, Path(folder.name), mode, extra)
            query, others = interruptible(
                connection, lambda: staging.query(connection, parts, mode, extra)
            )
            connection.execute(f"CREATE VIEW {VIEW} AS {query}")
        except duckdb.Error as error:
            raise UserError(f"rows cannot be read: {headline(error)}") from error
        finally:
            rows.check_unchanged()
        connection.execute("SET preserve_insertion_order=false")
        if paths is not None:
            rows.notices += files.notices(data)
            some = f"SELECT 1 FROM {VIEW} WHERE {{}} IS NOT NULL LIMIT 1"
            rows.notices += files.absent_columns(
                paths, mode, extra, lambda name: bool(rows.fetch(some.format(name)))
            )
        rows.unknown_columns = tuple(sorted(others - {ALIAS}))
        if ALIAS in others:
            rows.notices.append(ALIASED)
    except BaseException:
        rows.close()
        raise
    return rows
