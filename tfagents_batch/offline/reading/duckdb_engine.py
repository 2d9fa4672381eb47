"""DuckDB as an engine of the timeline; signals end its statements at once."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from tfagents_batch.errors import UserError, first_line
from tfagents_batch.offline.reading.dialect import DUCKDB, literal, literal_paths

Result = TypeVar("Result")
_POLL_SECONDS = 0.1


def interruptible(
    connection: Any,
    work: Callable[[], Result],
    tell: Callable[[float], None] | None = None,
) -> Result:
    """Run statements in another thread and return their result.

    DuckDB replaces the exception of a signal handler by a RuntimeError, so the handler
    must run elsewhere: here, in the calling thread. An exception there interrupts the
    statements. ``tell`` is called with the done part of the current one, 0 to 1.
    """
    with concurrent.futures.ThreadPoolExecutor(1, "duckdb") as pool:
        task = pool.submit(work)
        try:
            while concurrent.futures.wait([task], _POLL_SECONDS).not_done:
                if tell is not None:
                    percent = connection.query_progress()
                    tell(min(max(percent, 0), 100) / 100)
        except BaseException:
            connection.interrupt()
            raise
        return task.result()


_PART_BYTES = 2**29


class DuckDBEngine:
    """Connection of DuckDB with views and temporary tables of its own.

    ``SparkEngine`` has the same methods, a ``dialect`` with the words of the engine,
    and its name and ``version``, such as "duckdb v1.4.0".
    """

    dialect = DUCKDB

    def __init__(self, connection: duckdb.DuckDBPyConnection):
        self._connection = connection
        # Without these two, the connection does not know its progress, or prints it.
        connection.execute("SET enable_progress_bar = true")
        connection.execute("SET enable_progress_bar_print = false")
        ((version,),) = self.fetch("SELECT version()")
        self.version = f"duckdb {version}"

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        """Return the result of a query."""
        return self._connection.execute(query).fetchall()

    def table(self, name: str, query: str) -> None:
        """Create or replace a temporary table."""
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS\n{query}")

    def rows(self, name: str, query: str) -> None:
        """Create or replace a table or a view of rows that many queries read."""
        self.table(name, query)

    def view(self, name: str, query: str) -> None:
        """Create or replace a temporary view."""
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS\n{query}")

    def drop(self, *names: str) -> None:
        """Remove tables and views that exist."""
        for name, kind in itertools.product(names, ("VIEW", "TABLE")):
            with contextlib.suppress(duckdb.CatalogException):
                self._connection.execute(f"DROP {kind} {name}")

    def write(self, query: str, folder: Path, prefix: str, group_rows: int) -> None:
        """Write Parquet files with a prefix, in groups of rows; OSError if it fails."""
        copy = (
            f"COPY ({query}) TO {literal(str(folder))} (FORMAT parquet, "
            f"ROW_GROUP_SIZE {group_rows}, FILE_SIZE_BYTES {_PART_BYTES}, "
            f"FILENAME_PATTERN {literal(prefix + '{i}')}, OVERWRITE_OR_IGNORE)"
        )
        try:
            self._connection.execute(copy)
        except duckdb.IOException as error:
            raise OSError(first_line(error)) from error

    def read(self, name: str, files: list[str]) -> None:
        """Create or replace a view of Parquet files."""
        self.view(name, f"SELECT * FROM read_parquet({literal_paths(files)})")

    def run(self, work: Callable[[], None], tell: Callable[[float], None]) -> None:
        """Run statements and tell the part that is done, see ``interruptible``."""
        interruptible(self._connection, work, tell)

    @contextlib.contextmanager
    def failing(self, what: str) -> Iterator[None]:
        """Turn DuckDB's errors into a UserError that begins with ``what``."""
        try:
            yield
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:
            raise UserError(f"{what}: {first_line(error)}") from error
