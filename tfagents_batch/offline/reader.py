"""Logged rows of any form as one view of a DuckDB connection."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfagents_batch.errors import UserError
from tfagents_batch.offline import interruptible
from tfagents_batch.offline.schema import Mode, Schema, in_order, types

try:
    import duckdb

    from tfagents_batch.offline.reading import staging, view
    from tfagents_batch.offline.reading.json_lines import ALIAS
    from tfagents_batch.offline.reading.scratch import Scratch
except ImportError as error:
    raise UserError(
        f"logged rows need DuckDB and PyArrow ({error}); "
        'pip install "tfagents_batch[offline]"'
    ) from error

VIEW = "rows"


class File(NamedTuple):
    """File as it was when its rows were opened."""

    path: Path
    size: int
    mtime_ns: int


class Content(NamedTuple):
    """Name that occurs in rows.

    Attributes:
      kind: "action", "possible_action", "feature", "action_feature" or "metric".
      name: name of the action or the metric, or id of the feature.
      count: number of its occurrences.
    """

    kind: str
    name: str | int
    count: int


class Rows:
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

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and delete temporary files; may be called again."""
        self.connection.close()
        self._folder.cleanup()

    def fetch(self, query: str) -> list[tuple]:
        """Return the result of a query.

        Raises:
          UserError: if a file cannot be read, or changed meanwhile.
        """
        try:
            return interruptible.run(
                self.connection, lambda: self.connection.execute(query).fetchall()
            )
        except duckdb.Error as error:
            self.check_unchanged()
            raise UserError(f"rows cannot be read: {_line(error)}") from error

    def check_unchanged(self) -> None:
        """Check that all files are as they were when they were opened.

        Raises:
          UserError: if a file has another size or time of modification, or is gone.
        """
        for file in self.files:
            try:
                now = _file(file.path)
            except OSError:
                raise UserError(
                    f"{file.path} was removed while it was read; read the rows again"
                ) from None
            if now != file:
                raise UserError(
                    f"{file.path} changed while it was read: {file.size:,} bytes "
                    f"became {now.size:,}; wait until it is complete, and read again"
                )

    @functools.cached_property
    def contents(self) -> tuple[Content, ...]:
        """Names that occur in the rows, sorted; the first access reads all rows."""
        found = [
            Content(kind, int(name) if kind.endswith("feature") else name, count)
            for kind, name, count in self.fetch(_contents(self.view, self.mode))
        ]
        return tuple(sorted(found))

    def find_schema(self) -> Schema:
        """Return the schema of the rows; the first call reads all of them.

        Names of actions that are all integers are sorted as numbers, others as text.
        """

        def names(*kinds: str) -> tuple:
            return tuple(
                sorted({each.name for each in self.contents if each.kind in kinds})
            )

        return Schema(
            self.mode,
            actions=in_order(names("action", "possible_action")),
            features=names("feature"),
            action_features=names("action_feature"),
            metrics=names("metric"),
            extra_columns=self.extra_columns,
        )


def open_rows(
    data: Any,
    mode: Mode = "discrete",
    schema: Schema | None = None,
    *,
    extra_columns: Sequence[str] = (),
    threads: int | None = None,
    memory: str = "2GB",
) -> Rows:
    """Open logged rows.

    Args:
      data: path, glob or folder of JSON lines or Parquet, or a list of them; an Arrow,
        pandas or polars table; a DuckDB relation; a Minari dataset or
        ``"minari:<name>"``; or an iterable of rows, each a dict. Hive folders
        ``ds=<text>/`` give the column ``ds``.
      mode: kind of actions, see ``Schema``; that of ``schema``, if given.
      schema: expected schema; its extra columns are part of the view.
      extra_columns: names of further columns of the view, if there is no ``schema``.
      threads: of DuckDB; None for one per processor.
      memory: limit of DuckDB, such as "2GB"; larger queries use temporary files.

    Returns:
      ``Rows``, to be closed. Values that have no reading are NULL there, and the
      validator lists them.

    Raises:
      UserError: if there is no file, a file cannot be read or changes meanwhile, or a
        column has a type without a reading.
    """
    if schema is not None:
        mode, extra_columns = schema.mode, schema.extra_columns
    extra = tuple(extra_columns)
    for name in extra:
        if name in view.ADDED or name in types(mode):
            raise UserError(
                f"the extra column {name!r} has the name of another column; rename it"
            )
    found = staging.paths(data)
    files = tuple(_file(path) for path in found or ())
    folder = Scratch()
    connection = duckdb.connect(
        config={
            "memory_limit": memory,
            "temp_directory": folder.name,
            **({} if threads is None else {"threads": threads}),
        }
    )
    rows = Rows(connection, folder, mode, extra, files)
    try:
        try:
            source = data if found is None else found
            parts = staging.stage(connection, source, Path(folder.name), mode, extra)
            query, others = interruptible.run(
                connection, lambda: view.query(connection, parts, mode, extra)
            )
            connection.execute(f"CREATE VIEW {VIEW} AS {query}")
        except duckdb.Error as error:
            raise UserError(f"rows cannot be read: {_line(error)}") from error
        finally:
            rows.check_unchanged()
        connection.execute("SET preserve_insertion_order=false")
        rows.unknown_columns = tuple(sorted(others - {ALIAS}))
        if ALIAS in others:
            rows.notices.append(
                f"column {ALIAS} is read as action_probability where that is missing"
            )
    except BaseException:
        rows.close()
        raise
    return rows


def _contents(view: str, mode: Mode) -> str:
    """Return the query of ``Rows.contents``; names are strings."""
    found = [
        ("feature", "map_keys(state_features)"),
        ("feature", "map_keys(final_state_features)"),
        ("metric", "map_keys(metrics)"),
    ]
    if mode == "discrete":
        found += [
            ("action", "[action]"),
            ("possible_action", "possible_actions"),
            ("possible_action", "final_possible_actions"),
        ]
    else:
        found.append(("action_feature", "map_keys(action)"))
    if mode == "parametric":
        keys = "flatten(list_transform({}, lambda action: map_keys(action)))"
        found.append(("action_feature", keys.format("possible_actions")))
        found.append(("action_feature", keys.format("final_possible_actions")))
    counts = " UNION ALL ".join(
        f"SELECT '{kind}' AS kind, name::VARCHAR AS name, count(*) AS count "
        f"FROM (SELECT unnest({names}) AS name FROM {view}) GROUP BY name"
        for kind, names in found
    )
    return (
        f"SELECT kind, name, sum(count)::BIGINT FROM ({counts}) "
        "WHERE name <> '' GROUP BY kind, name"
    )


def _file(path: Path) -> File:
    status = path.stat()
    return File(path, status.st_size, status.st_mtime_ns)


def _line(error: Exception) -> str:
    """Return the first line of DuckDB's message."""
    return str(error).strip().partition("\n")[0]
