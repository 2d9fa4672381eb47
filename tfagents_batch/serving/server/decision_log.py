"""Logs of the server: decisions as rows, and feedback on them.

A log's file ends after a number of rows or seconds. That waits for the disk, so a
thread does it, while another file takes the rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfagents_batch.errors import SaveError
from tfagents_batch.offline.line_files import LineFiles
from tfagents_batch.offline.writer import RowLogger
from tfagents_batch.serving.description import Description
from tfagents_batch.serving.server.observations import Decision
from tfagents_batch.serving.server.rows import Rows

# Of the feedback, in the folder of the decisions; readers of rows leave it out.
FEEDBACK_FOLDER, FEEDBACK = "_feedback", "feedback"
_NEVER = 2**62  # rows and bytes of a file that does not end by itself


class Rotating:
    """Log whose files end in a thread; several threads may use it.

    Args:
      make: returns a new logger with ``log_lines`` and ``close``.
      rows, seconds: size and age at which a file ends.

    Attributes:
      logged: number of rows.
      failures: number of calls of ``log``, and of files, that the disk refused.
    """

    def __init__(self, make: Callable[[], Any], rows: int, seconds: float):
        self._make, self._limits = make, (rows, seconds)
        self._lock = threading.Lock()
        self._logger = make()
        self._rows, self._since = 0, time.monotonic()
        self.logged = self.failures = 0

    def log(self, lines: Sequence[str]) -> None:
        """Write lines of JSON.

        Raises:
          SaveError: if the disk is full, for example. The next call tries again.
        """
        try:
            with self._lock:
                self._logger.log_lines(lines)
                self._rows += len(lines)
                self.logged += len(lines)
        except SaveError:
            self.failures += 1
            raise

    @property
    def is_due(self) -> bool:
        """Whether the file has the size or age at which it ends."""
        rows, seconds = self._limits
        age = time.monotonic() - self._since
        return self._rows >= rows or (self._rows > 0 and age >= seconds)

    def rotate(self) -> None:
        """End the file, so that readers see it; a failure is counted."""
        try:
            fresh = self._make()
            with self._lock:
                old, self._logger = self._logger, fresh
                self._rows, self._since = 0, time.monotonic()
            old.close()
        except SaveError:  # the next logger of the folder completes the file
            self.failures += 1

    def close(self) -> None:
        """End the file; may be called again."""
        with self._lock:
            self._logger.close()


class DecisionLog:
    """Log of the decisions of a server, with the feedback on them beside it.

    Args:
      folder: folder of the rows.
      description: of the export; those after it have the same actions.
      rows, seconds: size and age at which a file ends.

    Raises:
      UserError: if its decisions are no rows.
      SaveError: if the folder cannot be written.
    """

    def __init__(
        self, folder: str | Path, description: Description, rows: int, seconds: float
    ):
        self._rows = Rows(description)
        self._version = description.version
        mode = self._rows.mode

        def make() -> RowLogger:
            limits = {"rows_per_file": _NEVER, "bytes_per_file": _NEVER}
            return RowLogger(folder, mode, **limits)

        def make_feedback() -> FeedbackLogger:
            return FeedbackLogger(Path(folder).expanduser() / FEEDBACK_FOLDER)

        self.decisions = Rotating(make, rows, seconds)
        try:
            self.feedback = Rotating(make_feedback, rows, seconds)
        except BaseException:
            self.decisions.close()
            raise

    def log(
        self,
        description: Description,
        decisions: Sequence[Decision],
        answers: Sequence[dict[str, Any]],
        arrays: Mapping[str, np.ndarray],
        ds: str,
        first_number: int,
    ) -> None:
        """Write the rows of a batch, see ``Rows``.

        Raises:
          SaveError: if the disk is full, for example.
        """
        if description.version != self._version:
            self._rows, self._version = Rows(description), description.version
        self.decisions.log(self._rows(decisions, answers, arrays, ds, first_number))

    def rotate_if_due(self) -> None:
        """End the files that have their size or age; waits for the disk."""
        for each in (self.decisions, self.feedback):
            if each.is_due:
                each.rotate()

    def close(self) -> None:
        """End both files; may be called again."""
        try:
            self.decisions.close()
        finally:
            self.feedback.close()


class FeedbackLogger:
    """Logger of feedback as JSON lines.

    Args:
      folder: folder of the files.

    Raises:
      SaveError: if it cannot be written.
    """

    def __init__(self, folder: Path):
        self._files = LineFiles(folder, FEEDBACK, _NEVER, _NEVER)

    def log_lines(self, lines: Sequence[str]) -> None:
        """Write lines of feedback.

        Raises:
          SaveError: if the disk is full, for example.
        """
        self._files.write(lines)

    def close(self) -> None:
        """End the file; may be called again."""
        self._files.close()
