"""Trackers: send a run's log to Weights & Biases or MLflow, which are extras.

``Logger`` sends a tracker the data that it writes to files. A separate thread imports
the package and talks to the server, so training never waits for a network. If a tracker
fails, or falls too far behind, it is closed with one warning. ``metrics.jsonl`` stays
the primary log.

``<kind>.json`` in the run folder stores the identifiers of the run in the tracker, so
that a resumed run continues there.
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
from tfagents_batch.training.log.connections import KINDS
from tfagents_batch.training.run_folder import files

BEHIND = 1000  # calls that may wait to be sent
CLOSE_SECONDS = 60.0  # time to send the remaining calls at the end


def check(kind: str) -> None:
    """Check that a tracker can be used, before a run folder is created.

    Raises:
      UserError: if there is no such tracker or its package is missing.
    """
    if kind == "none":
        return
    if kind not in KINDS:
        raise UserError(unknown("track", kind, ["none", *KINDS]))
    spec = importlib.util.find_spec(kind)
    # W&B leaves a folder named wandb behind, which looks like a package.
    if spec is None or spec.origin is None:
        raise UserError(
            f'--track={kind} needs {kind}: pip install "tfagents_batch[{kind}]"'
        )


def start(
    kind: str,
    folder: Path,
    config: dict[str, Any],
    report: Callable[[str], None],
) -> Tracker | None:
    """Return the tracker of a run, or None; its ``Logger`` closes it.

    Args:
      kind: "none", "wandb" or "mlflow", see ``check``.
      folder: folder of the run; stores the run's identifiers in the tracker.
      config: config of the run, JSON-able.
      report: called from another thread with lines of text: where to see the run, and
        a warning if the tracker fails.
    """
    if kind == "none":
        return None
    connection = KINDS[kind]

    def connect() -> Any:
        path = folder / f"{kind}.json"
        connected = connection(folder, flat(config), _saved_ids(path))
        files.write_atomic(path, json.dumps(connected.ids) + "\n")
        report(f"{connection.title}: {connected.where}")
        return connected

    return Tracker(connection.title, connect, report)


class Tracker:
    """A tracker that runs in a separate thread.

    Args:
      name: name of the tracker in warnings.
      connect: returns the connection, see ``connections``; called in the thread.
      warn: called from any thread with a line of text when the tracker fails.
      close_seconds: longest time that ``close`` waits.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], Any],
        warn: Callable[[str], None],
        close_seconds: float = CLOSE_SECONDS,
    ):
        self._name, self._connect, self._warn = name, connect, warn
        self._close_seconds = close_seconds
        self._calls: queue.Queue = queue.Queue(BEHIND)
        self._ended = threading.Event()  # closed or failed
        self._thread = threading.Thread(
            target=self._run, name=f"tfagents_batch-{name}", daemon=True
        )
        self._thread.start()

    def send(self, method: str, *arguments: Any) -> None:
        """Call a method of the connection in the thread, unless tracking has ended."""
        if self._ended.is_set():
            return
        try:
            self._calls.put_nowait((method, *arguments))
        except queue.Full:
            self._give_up(f"{BEHIND} lines wait to be sent")

    def close(self, ended: str) -> None:
        """Wait until everything is sent, or for ``close_seconds``; idempotent.

        Args:
          ended: "finished", "stopped" or "failed".
        """
        self.send("close", ended)
        if self._ended.is_set():
            return
        self._thread.join(self._close_seconds)
        if self._thread.is_alive():  # as a daemon, it ends with the process
            self._give_up(f"it did not end within {self._close_seconds:g} s")
        self._ended.set()

    def _run(self) -> None:
        try:
            tracker, method = self._connect(), ""
            while method != "close":
                method, *arguments = self._calls.get()
                if self._ended.is_set():
                    return
                getattr(tracker, method)(*arguments)
        except BaseException as error:  # a package may raise anything
            self._give_up(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")

    def _give_up(self, reason: str) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        self._warn(
            f"warning: tracking by {self._name} ended; training continues: {reason}"
        )
        with contextlib.suppress(queue.Full):  # wake a thread that waits for a call
            self._calls.put_nowait(("close",))


def _saved_ids(path: Path) -> dict[str, str]:
    """Return the identifiers in a file; empty if it is missing or damaged."""
    try:
        pairs = json.loads(files.read(path)).items()
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
    return {name: value for name, value in pairs if isinstance(value, str)}
