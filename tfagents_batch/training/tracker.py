"""What a tracker is: somebody else who takes a run's log.

And what those in this package share: how they are opened, and how the run's name in
them is kept in the run folder, as text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from tfagents_batch.training import runs

PROJECT = "tfagents_batch"  # of runs that no variable of the environment puts elsewhere


class Tracker(Protocol):
    """Takes a run's log."""

    def write(self, step: int, metrics: dict[str, float]) -> None:
        """A line of metrics, finite numbers by their log names."""

    def event(self, line: dict[str, Any]) -> None:
        """An event, as in ``metrics.jsonl``: ``event``, ``step`` and its fields."""

    def video(self, name: str, data: bytes, step: int) -> None:
        """An animated GIF."""

    def close(self, ended: str) -> None:
        """Send the rest; ``ended`` is "finished", "stopped" or "failed"."""


def read_id(path: Path) -> dict[str, str]:
    """What ``write_id`` wrote; empty without a file, or with one that is damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {k: v for k, v in found.items() if isinstance(v, str)}


def write_id(path: Path, **names: str) -> None:
    """Keep a run's names in its tracker, as JSON text."""
    runs.write_atomic(path, json.dumps(names) + "\n")
