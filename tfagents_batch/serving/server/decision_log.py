"""Logs of the server: decisions as rows, and feedback on them.

A log's file ends after a number of rows or seconds. That waits for the disk, so a
thread does it, while another file takes the rows.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tfagents_batch.errors import SaveError
from tfagents_batch.offline.line_files import LineFiles

# Of the feedback, in the folder of the decisions; readers of rows leave it out.
FEEDBACK_FOLDER = "_feedback"
_NEVER = 2**62  # rows and bytes of a file that does not end by itself


class Rotating:
    """Files of lines, which end in a thread; several threads may use it.

    Args:
      folder, prefix: see ``LineFiles``.
      rows, seconds: size and age at which a file ends.

    Attributes:
      logged: number of rows.
      failures: number of calls of ``log``, and of files, that the disk refused.
    """

    def __init__(self, folder: Path, prefix: str, rows: int, seconds: float):
        self._folder, self._prefix, self._limits = folder, prefix, (rows, seconds)
        self._lock = threading.Lock()
        self._files = self._open()
        self._rows, self._since = 0, time.monotonic()
        self.logged = self.failures = 0
        self._refused: str | None = None  # by the disk, until it takes lines

    def _open(self) -> LineFiles:
        return LineFiles(self._folder, self._prefix, _NEVER, _NEVER, warn)

    def log(self, lines: Sequence[str]) -> None:
        """Write lines of JSON.

        Raises:
          SaveError: if the disk is full, for example. The next call tries again.
        """
        try:
            with self._lock:
                self._files.write(lines)
                self._rows += len(lines)
                self.logged += len(lines)
                self._refused = None
        except SaveError as error:
            self.failures += 1
            self._refused = str(error)
            raise

    def rotate_if_due(self) -> str | None:
        """End a file with its size or age, so that readers see it; count a failure.

        Returns:
          What the disk refuses, until it takes lines again; None for nothing.
        """
        rows, seconds = self._limits
        try:
            self._files.check()
            age = time.monotonic() - self._since
            if self._rows >= rows or (self._rows and age >= seconds):
                fresh = self._open()
                with self._lock:
                    old, self._files = self._files, fresh
                    self._rows, self._since = 0, time.monotonic()
                old.close()
            return self._refused
        except SaveError as error:  # the next server of the folder completes the file
            self.failures += 1
            return str(error)

    def close(self) -> None:
        """End the file; may be called again."""
        with self._lock:
            self._files.close()


def warn(text: str) -> None:
    """Write a warning to stderr."""
    print(f"warning: {text}", file=sys.stderr, flush=True)


class DecisionLog:
    """Log of the decisions of a server, with the feedback on them beside it.

    Args:
      folder: folder of the rows.
      rows, seconds: size and age at which a file ends.

    Raises:
      SaveError: if the folder cannot be written.
    """

    def __init__(self, folder: str | Path, rows: int, seconds: float):
        path = Path(folder).expanduser()
        self.decisions = Rotating(path, "rows", rows, seconds)
        feedback = path / FEEDBACK_FOLDER
        self.feedback = Rotating(feedback, "feedback", rows, seconds)

    def rotate_if_due(self) -> list[str]:
        """End the files that have their size or age, and return what went wrong."""
        problems = self.decisions.rotate_if_due(), self.feedback.rotate_if_due()
        return [text for text in problems if text]

    def close(self) -> None:
        """End both files; may be called again."""
        try:
            self.decisions.close()
        finally:
            self.feedback.close()
