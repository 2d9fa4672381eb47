"""Clock of the seconds since a process was launched, without pauses."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Clock:
    """Clock that starts with the launch of this process; ``pause`` stops it.

    Args:
      launched: ``time.time()`` of the parent just before it launched this process,
        so that starting the interpreter counts.
    """

    def __init__(self, launched: float):
        self._launched = time.perf_counter() - (time.time() - launched)
        self._zero = self._launched

    def seconds(self) -> float:
        """Return the seconds so far, without pauses."""
        return time.perf_counter() - self._zero

    def with_pauses(self) -> float:
        """Return the seconds of wall time so far."""
        return time.perf_counter() - self._launched

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the clock within the context."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._zero += time.perf_counter() - start
