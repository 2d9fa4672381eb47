"""Sending a run's log to Weights & Biases or MLflow as well (extras of those names).

A tracker gets from ``Logger`` what the files get: ``write``, ``event``, ``video`` and
``close``. Its package is imported, and its server spoken to, in a thread of its own, so
training never waits for a network. A tracker that fails, or comes too far behind, is
given up with one warning. ``metrics.jsonl`` stays the primary log.

``<kind>.json`` in the run folder keeps the run's names in the tracker, so that a
resumed run goes on there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfagents_batch.config import flat
from tfagents_batch.errors import UserError
from tfagents_batch.suggest import unknown
from tfagents_batch.training.run_folder import runs

BEHIND = 1000  # calls that may wait for a tracker
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
    say: Callable[[str], None],
) -> list[Tracker]:
    """Return the trackers of a run, none or one, for its ``Logger``, which closes them.

    Args:
      kind: "none", "wandb" or "mlflow", see ``check``.
      folder: of the run; keeps the run's names in the tracker from then on.
      config: of the run, JSON-able.
      say: takes lines of text, from another thread: where the run is to be seen, and
        the warning if the tracker is given up.
    """
    if kind == "none":
        return []

    def make() -> Any:
        if kind == "wandb":
            from tfagents_batch.training.log.wandb_tracker import Wandb as Kind
        else:
            from tfagents_batch.training.log.mlflow_tracker import Mlflow as Kind
        path = folder / f"{kind}.json"
        made = Kind(folder, flat(config), _known(path))
        runs.write_atomic(path, json.dumps(made.names) + "\n")
        say(f"{_PACKAGES[kind]}: {made.where}")
        return made

    return [Tracker(_PACKAGES[kind], make, say)]


class Tracker:
    """A tracker in a thread of its own.

    Args:
      name: for warnings.
      make: opens what has the same methods; called in the thread.
      warn: takes one line of text when the tracker is given up; from any thread.
      close_seconds: that ``close`` waits.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Any],
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
        """Send a line of metrics, finite numbers by their log names."""
        self._put("write", step, metrics)

    def event(self, line: dict[str, Any]) -> None:
        """Send an event, as in ``metrics.jsonl``."""
        self._put("event", line)

    def video(self, name: str, data: bytes, step: int) -> None:
        """Send an animated GIF."""
        self._put("video", name, data, step)

    def close(self, ended: str) -> None:
        """Wait until everything is sent, or for ``close_seconds``; idempotent.

        Args:
          ended: "finished", "stopped" or "failed".
        """
        self._put("close", ended)
        if self._ended.is_set():
            return
        self._thread.join(self._close_seconds)
        if self._thread.is_alive():  # a daemon: it ends with the process
            self._give_up(f"it did not end within {self._close_seconds:g} s")
        self._ended.set()

    def _put(self, *call: Any) -> None:
        if self._ended.is_set():
            return
        try:
            self._calls.put_nowait(call)
        except queue.Full:
            self._give_up(f"{BEHIND} lines wait to be sent")

    def _run(self) -> None:
        try:
            tracker, method = self._make(), ""
            while method != "close":
                method, *arguments = self._calls.get()
                if self._ended.is_set():
                    return
                getattr(tracker, method)(*arguments)
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
            self._calls.put_nowait(("close",))


def _known(path: Path) -> dict[str, str]:
    """Return the names in a file; none without a file, or with one that is damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    pairs = found.items() if isinstance(found, dict) else ()
    return {key: value for key, value in pairs if isinstance(value, str)}
