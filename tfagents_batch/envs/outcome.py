"""What comes of a command to environments."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from tfagents_batch.envs.failures import Failure

_LOG = logging.getLogger("tfagents_batch")
# What is known of a row, for the failures of workers that cannot tell any more.
Context = Callable[[int], dict[str, Any]]


class Fault(NamedTuple):
    """A failure and the worker it happened in; None for in-process environments."""

    failure: Failure
    worker: int | None


class Outcome:
    """What came of one command.

    Attributes:
      faults: what went wrong, in order of detection.
      lost: rows without a valid result.
      replies: payloads by worker.
      stopped: whether the wait ended because of a stop.
    """

    __slots__ = ("faults", "lost", "replies", "stopped")

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.lost: set[int] = set()
        self.replies: dict[int, Any] = {}
        self.stopped = False

    def log_notes(self) -> None:
        """Log what the workers have to say beside their results."""
        for index in sorted(self.replies):
            log_notes(self.replies[index])


def log_notes(payload: Any) -> None:
    """Log what a worker has to say beside its results."""
    for note in (payload or {}).get("notes", ()):
        _LOG.warning("%s", note)
