"""Sending a run's log to Weights & Biases or MLflow as well (extras of those names).

A tracker is what ``Logger`` tells the same as its files. Its package is imported, and
its server spoken to, in a thread of its own, so training never waits for a network; a
tracker that fails, or comes too far behind, is given up with one warning, and training
goes on. ``metrics.jsonl`` stays the primary log: it has everything, always.

The run's name in the tracker is kept as text in the run folder, so that a resumed run
goes on there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.suggest import unknown
from tfagents_batch.training.tracker import Tracker

BEHIND = 1000  # lines that may wait for a tracker
CLOSE_SECONDS = 60.0  # that it has in the end to send what it has
_PACKAGES = {"wandb": "Weights & Biases", "mlflow": "MLflow"}


def check(kind: str) -> None:
    """Refuse a tracker that cannot be used, before there is a run folder.

    Args:
      kind: "none", "wandb" or "mlflow".

    Raises:
      UserError: if there is no such tracker or its package is missing.
    """
    if kind == "none":
        return
    if kind not in _PACKAGES:
        raise UserError(unknown("track", kind, ["none", *_PACKAGES]))
    spec = importlib.util.find_spec(kind)
    # W&B leaves a folder of its own name behind, which looks like a package.
    if spec is None or spec.origin is None:
        raise UserError(
            f'--track={kind} needs {kind}: pip install "tfagents_batch[{kind}]"'
        )


def start(
    kind: str,
    folder: Path,
    config: dict[str, Any],
    tell: Callable[[str], None],
) -> list[Tracker]:
    """The trackers of a run, for its ``Logger``, which closes them.

    Args:
      kind: "none", "wandb" or "mlflow".
      folder: of the run; holds the run's name in the tracker from then on.
      config: of the run, JSON-able.
      tell: takes lines of text, from another thread: where the run is to be seen, and
        the warning if it is given up.

    Returns:
      None or one.

    Raises:
      UserError: see ``check``.
    """
    check(kind)
    if kind == "none":
        return []

    def make() -> Tracker:
        if kind == "wandb":
            from tfagents_batch.training.wandb_tracker import WandbTracker

            return WandbTracker(folder, config, tell)
        from tfagents_batch.training.mlflow_tracker import MlflowTracker

        return MlflowTracker(folder, config, tell)

    return [Apart(_PACKAGES[kind], make, tell)]


class Apart:
    """A tracker in a thread of its own.

    Args:
      name: for warnings.
      make: opens the tracker; called in the thread.
      warn: takes one line of text when the tracker is given up; from any thread.
      close_seconds: that ``close`` waits.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Tracker],
        warn: Callable[[str], None],
        close_seconds: float = CLOSE_SECONDS,
    ):
        self._name, self._make, self._warn = name, make, warn
        self._close_seconds = close_seconds
        self._calls: queue.Queue = queue.Queue(BEHIND)
        self._ended = threading.Event()  # closed or given up
        self._thread = threading.Thread(
            target=self._run, name=f"tfagents_batch-{name}", daemon=True
        )
        self._thread.start()

    def write(self, step: int, metrics: dict[str, float]) -> None:
        self._put(lambda tracker: tracker.write(step, metrics))

    def event(self, line: dict[str, Any]) -> None:
        self._put(lambda tracker: tracker.event(line))

    def video(self, name: str, data: bytes, step: int) -> None:
        self._put(lambda tracker: tracker.video(name, data, step))

    def close(self, ended: str) -> None:
        """Wait until everything is sent, or for ``close_seconds``; idempotent."""
        self._put(lambda tracker: tracker.close(ended))
        self._put(None)
        if self._ended.is_set():
            return
        self._thread.join(self._close_seconds)
        if self._thread.is_alive():  # a daemon: it ends with the process
            self._give_up(f"it did not end within {self._close_seconds:g} s")
        self._ended.set()

    def _put(self, call: Callable[[Tracker], None] | None) -> None:
        if self._ended.is_set():
            return
        try:
            self._calls.put_nowait(call)
        except queue.Full:
            self._give_up(f"{BEHIND} lines wait to be sent")

    def _run(self) -> None:
        try:
            tracker = self._make()
            while (call := self._calls.get()) and not self._ended.is_set():
                call(tracker)
        except BaseException as error:  # whatever a package does of its own
            self._give_up(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")

    def _give_up(self, reason: str) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        self._warn(
            f"warning: tracking by {self._name} ends, training goes on: {reason}"
        )
        with contextlib.suppress(queue.Full):  # wake a thread that waits for more
            self._calls.put_nowait(None)
