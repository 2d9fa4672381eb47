"""A line that says what a command does, until its results or a console appear.

Importing TensorFlow, starting environments and compiling take seconds each. A thread
rewrites the line on a terminal, and prints a new one now and then elsewhere. What it
says is in ``status``.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from tfagents_batch.training.log import status
from tfagents_batch.training.log.ticker import Ticker

REASON = "the first start compiles for about 20 s, later ones are faster"
FIRST = f"starting; {REASON}"
_TERMINAL, _LINES = 0.5, 4.0  # seconds between two lines
_FIRST = 1.0  # seconds before the first one; on a terminal it is there at once

_open: list[_Line] = []  # at most one


@contextlib.contextmanager
def starting(quiet: bool = False, reason: str = REASON) -> Iterator[None]:
    """Say at once that a command starts, and then what it does, until ``end``.

    Args:
      quiet: say nothing.
      reason: why this may take long; may be empty.
    """
    if not quiet and not _open:
        _open.append(_Line(reason))
        _open[0].start()
    try:
        yield
    finally:
        end()


def is_open() -> bool:
    """Return whether there is a line, which says what ``status`` says."""
    return bool(_open)


def end() -> None:
    """End the line, because a console takes its place."""
    while _open:
        _open.pop().stop()


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Take the line away while something else is printed."""
    with _open[0].erased() if _open else contextlib.nullcontext():
        yield


class _Line:
    """The line, and what rewrites it.

    It has a descriptor of its own: stderr is redirected while TensorFlow is imported.
    """

    def __init__(self, reason: str):
        self._began, self._reason = time.monotonic(), reason
        self._lock = threading.Lock()
        try:
            self._file = os.dup(2)
            self._terminal = os.isatty(self._file) and os.environ.get("TERM") != "dumb"
        except OSError:  # stderr is closed
            self._file, self._terminal = None, False
        self._said = False
        seconds = _TERMINAL if self._terminal else _LINES
        self._ticker = Ticker(seconds, self._tell, min(seconds, _FIRST))

    def start(self) -> None:
        """Begin; on a terminal, at once."""
        if self._file is not None:
            if self._terminal:  # elsewhere a wrong flag is one line, its error
                self._tell()
            self._ticker.start()

    def stop(self) -> None:
        """End, and remove what can be removed of the line."""
        if self._file is not None and self._ticker.stop():
            if self._terminal:
                self._write("\r\x1b[2K")
            os.close(self._file)
        self._file = None

    @contextlib.contextmanager
    def erased(self) -> Iterator[None]:
        """Remove the line on a terminal, until something else is printed."""
        with self._lock:
            if self._terminal:
                self._write("\r\x1b[2K")
            yield

    def _tell(self) -> None:
        seconds = round(time.monotonic() - self._began)
        text = f"{status.now() or 'starting'}, {seconds} s"
        if self._reason and not self._said:
            text = f"starting; {self._reason}"
        elif self._reason and self._terminal:
            text = f"{text} ({self._reason})"
        self._said = True
        with self._lock:
            self._write(f"\r\x1b[2K{text}" if self._terminal else f"{text}\n")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be closed
            os.write(self._file, text.encode())
