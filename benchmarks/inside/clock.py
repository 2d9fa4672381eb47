"""Seconds since a process was launched, without those of pauses."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Clock:
    """Runs from the launch of this process on; ``pause`` stops it.

    Args:
      launched: ``time.time()`` of the parent just before it launched this process,
        so that starting the interpreter counts.
    """

    def __init__(self, launched: float):
        self._launched = time.perf_counter() - (time.time() - launched)
        self._zero = self._launched

    def seconds(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self._zero

    def with_pauses(self) -> float:
        """Seconds so far, as on the wall."""
        return time.perf_counter() - self._launched

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """What happens meanwhile takes no time."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._zero += time.perf_counter() - began
