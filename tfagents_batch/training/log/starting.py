"""A line that says what a run does before its console opens.

Importing TensorFlow, starting environments and compiling take seconds each. A thread
rewrites the line on a terminal, and prints a new one now and then elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from tfagents_batch.training.log import status
from tfagents_batch.training.log.ticker import Ticker

REASON = "the first start compiles for about 20 s, later ones are faster"
FIRST = f"starting; {REASON}"
_TERMINAL, _LINES = 0.5, 4.0  # seconds between two lines

_open: list[_Line] = []  # at most one


@contextlib.contextmanager
def starting(quiet: bool = False) -> Iterator[None]:
    """Say at once that a run starts, and then what it does, until ``end``."""
    if not quiet and not _open:
        _open.append(_Line())
        _open[0].start()
    try:
        yield
    finally:
        end()


def end() -> None:
    """End the line, because a console takes its place."""
    while _open:
        _open.pop().stop()


class _Line:
    """The line, and what rewrites it.

    It has a descriptor of its own: stderr is redirected while TensorFlow is imported.
    """

    def __init__(self):
        self._began = time.monotonic()
        try:
            self._file = os.dup(2)
            self._terminal = os.isatty(self._file) and os.environ.get("TERM") != "dumb"
        except OSError:  # stderr is closed
            self._file, self._terminal = None, False
        self._said = False
        self._ticker = Ticker(_TERMINAL if self._terminal else _LINES, self._tell)

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

    def _tell(self) -> None:
        seconds = round(time.monotonic() - self._began)
        text = f"{status.now() or 'starting'}, {seconds} s"
        if not self._said:
            text = FIRST
        elif self._terminal:
            text = f"{text} ({REASON})"
        self._said = True
        self._write(f"\r\x1b[2K{text}" if self._terminal else f"{text}\n")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be closed
            os.write(self._file, text.encode())
