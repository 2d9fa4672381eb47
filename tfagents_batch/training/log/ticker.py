"""Thread that calls a function now and then, for lines that move by themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable

_JOIN = 1.0  # seconds that ``stop`` waits for a call that hangs, on a terminal


class Ticker:
    """Calls a function every few seconds, from ``start`` to ``stop``.

    Args:
      seconds: time between two calls.
      call: the function.
      first: seconds before the first call; None means ``seconds``.
    """

    def __init__(
        self, seconds: float, call: Callable[[], None], first: float | None = None
    ):
        self._seconds, self._call = seconds, call
        self._first = seconds if first is None else first
        self._done = threading.Event()
        name = "tfagents_batch-display"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> bool:
        """End the thread; return False if it hangs. Without ``start``, do nothing."""
        self._done.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN)
        return not self._thread.is_alive()

    def _run(self) -> None:
        seconds = self._first
        while not self._done.wait(seconds):
            self._call()
            seconds = self._seconds
