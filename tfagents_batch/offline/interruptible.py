"""Long statements of DuckDB, which Ctrl-C and other signals end at once."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")
_POLL_SECONDS = 0.1


def run(
    connection: Any,
    work: Callable[[], Result],
    tell: Callable[[float], None] | None = None,
) -> Result:
    """Run statements in another thread and return their result.

    DuckDB replaces the exception of a signal handler by a RuntimeError, so the handler
    must run elsewhere: here, in the calling thread.

    Args:
      connection: connection whose statements are interrupted if this thread receives
        an exception.
      work: function that executes the statements.
      tell: called with the part of the current statement that is done, 0 to 1.
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
