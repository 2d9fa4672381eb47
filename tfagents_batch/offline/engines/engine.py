"""Interface of an engine, by which the timeline runs its SQL."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tfagents_batch.offline.engines.dialect import Dialect

Tell = Callable[[float], None]


class Engine(Protocol):
    """Engine with views and temporary tables of its own.

    Attributes:
      dialect: its words.
      version: name and version, such as "duckdb 2.0.0".
    """

    dialect: Dialect
    version: str

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        """Return the result of a query."""

    def columns(self, name: str) -> dict[str, str]:
        """Return the columns of a table with their types, in the engine's words."""

    def table(self, name: str, query: str) -> None:
        """Create or replace a temporary table."""

    def rows(self, name: str, query: str) -> None:
        """Create or replace a table or a view of rows that many queries read."""

    def view(self, name: str, query: str) -> None:
        """Create or replace a temporary view."""

    def drop(self, *names: str) -> None:
        """Remove tables and views that exist."""

    def write(self, query: str, folder: Path, prefix: str, group_rows: int) -> None:
        """Write the result of a query as Parquet files into a folder.

        Args:
          query: SQL of the rows.
          folder: an empty folder.
          prefix: beginning of the names of the files.
          group_rows: rows of a row group.

        Raises:
          OSError: if a file cannot be written.
        """

    def read(self, name: str, files: list[str]) -> None:
        """Create or replace a view of Parquet files."""

    def run(self, work: Callable[[], None], tell: Tell) -> None:
        """Run statements; an exception in the calling thread ends them.

        Args:
          work: function that executes statements.
          tell: called with the part that is done, 0 to 1, where it is known.
        """

    def failing(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Return a context that turns the engine's errors into a UserError.

        Args:
          what: beginning of its message.
        """
