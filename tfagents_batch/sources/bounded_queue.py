"""A queue between threads whose content is bounded, and counters of threads."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

POLL = 0.2  # seconds after which a waiting thread looks whether it should stop


class Stopping(Exception):
    """A thread should end."""


class BoundedQueue:
    """Queue between threads; ``size`` is the sum of the sizes of its items.

    Args:
      capacity: largest sum of sizes; a single larger item fits if it is empty.
      stopping: once set, ``put`` and ``get`` raise ``Stopping``.
    """

    def __init__(self, capacity: int, stopping: threading.Event):
        self._capacity, self._stopping = capacity, stopping
        self._items: deque[tuple[Any, int]] = deque()
        self._changed = threading.Condition()
        self.size = 0

    def put(
        self, item: Any, size: int = 1, watch: Callable[[], None] | None = None
    ) -> float:
        """Add an item when there is room; return the seconds waited.

        Every 0.2 s of that, ``watch`` is called to look for failures; it may raise.
        """

        def fits():
            return not self._items or self.size + size <= self._capacity

        begin = time.perf_counter()
        while True:
            with self._changed:
                if self._becomes(fits):
                    self._items.append((item, size))
                    self.size += size
                    self._changed.notify_all()
                    return time.perf_counter() - begin
            if watch is not None:
                watch()

    def get(self) -> Any:
        """Remove and return the oldest item when there is one."""
        with self._changed:
            while not self._becomes(lambda: self._items):
                pass
            item, size = self._items.popleft()
            self.size -= size
            self._changed.notify_all()
        return item

    def _becomes(self, ready: Callable[[], Any]) -> bool:
        """Return whether a condition is true, now or after up to ``POLL`` seconds."""
        is_ready = self._changed.wait_for(ready, POLL)
        if self._stopping.is_set():
            raise Stopping
        return bool(is_ready)


class Counts:
    """Sums of what threads did, since the last call of ``take``."""

    def __init__(self):
        self._lock, self._sums = threading.Lock(), Counter[str]()

    def add(self, **numbers: float) -> None:
        with self._lock:
            self._sums.update(numbers)

    def take(self) -> Mapping[str, float]:
        with self._lock:
            taken, self._sums = self._sums, Counter()
        return taken
