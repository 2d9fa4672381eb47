"""Trackers: send a run's log to Weights & Biases or MLflow, which are extras.

``Logger`` sends a tracker the data that it writes to files. A separate thread imports
the package and talks to the server, so training never waits for a network. If a tracker
fails, or falls too far behind, it is closed with one warning. ``metrics.jsonl`` stays
the primary log.

``<kind>.json`` in the run folder stores the identifiers of the run in the tracker, so
that a resumed run continues there.

A connection is used in that thread only. ``write`` gets a step and finite numbers by
their log names, ``event`` a line of ``metrics.jsonl``, ``video`` a name, an animated
GIF and a step, and ``close`` the end of the run: "finished", "stopped" or "failed".
Environment variables of the packages set the destination: ``WANDB_PROJECT``,
``WANDB_MODE=offline``, ``MLFLOW_TRACKING_URI``, ``MLFLOW_EXPERIMENT_NAME`` and so on.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfagents_batch.config import flat
from tfagents_batch.errors import UserError, first_line
from tfagents_batch.settings.suggest import unknown
from tfagents_batch.training.run_folder import files

BEHIND = 1000  # calls that may wait to be sent
CLOSE_SECONDS = 60.0  # time to send the remaining calls at the end
PROJECT = "tfagents_batch"  # default of both
ALERTS = ("alarm", "env_failed", "failed")  # events that send an alert
_STATUS = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_BATCH = 100  # parameters per call, the limit of MLflow
_LONGEST = 500  # characters of a value, the limit of older MLflow servers


def check(kind: str) -> None:
    """Refuse an unknown tracker, or one whose package is missing."""
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
    kind: str, folder: Path, config: dict[str, Any], report: Callable[[str], None]
) -> Tracker | None:
    """Return the tracker of a run, or None; its ``Logger`` closes it.

    ``report`` is called from another thread with lines of text: where to see the run,
    and a warning if the tracker fails.
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
    """A tracker that runs in a separate thread, in which ``connect`` is called.

    ``warn`` is called from any thread with a line of text when the tracker fails.
    ``close`` waits for ``close_seconds`` at most.
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
        """Wait until everything is sent, or for ``close_seconds``; idempotent."""
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
            self._give_up(first_line(error))

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


class Wandb:
    """Connection to Weights & Biases of a run, with its flat settings.

    Charts have environment steps on their x-axis. An event is a point of
    ``event/<kind>``; important events are also sent as alerts. ``ids`` are identifiers
    that a resumed run needs to continue here, ``where`` says where to see the run.
    """

    title = "Weights & Biases"

    def __init__(self, folder: Path, settings: dict[str, Any], ids: dict[str, str]):
        # Otherwise W&B asks for a key on the terminal, over the progress bar.
        os.environ.setdefault("WANDB_SILENT", "true")
        import wandb  # pyright: ignore[reportMissingImports]  not in dev

        self._video = wandb.Video
        self._run = run = wandb.init(
            project=ids.get("project") or os.environ.get("WANDB_PROJECT", PROJECT),
            entity=ids.get("entity"),
            id=ids.get("id"),
            resume="allow" if ids else None,
            name=folder.name,
            dir=str(folder),
            config=settings,
            allow_val_change=True,  # resumed runs may change settings
            # W&B must not capture stdout and stderr.
            settings=wandb.Settings(console="off"),
        )
        run.define_metric("step")
        run.define_metric("*", step_metric="step")
        ids = {"id": run.id, "project": run.project, "entity": run.entity}
        self.ids = {name: value for name, value in ids.items() if value}
        self.where = run.dir if run.offline else run.url

    def write(self, step: int, metrics: dict[str, float]) -> None:
        self._run.log({"step": step, **metrics})

    def event(self, line: dict[str, Any]) -> None:
        kind, step = line["event"], line["step"]
        self._run.log({"step": step, f"event/{kind}": 1})
        if kind in ALERTS:
            text = _text(line, "event", "step")
            self._run.alert(title=f"{kind} at step {step:,}", text=text)

    def video(self, name: str, data: bytes, step: int) -> None:
        self._run.log({"step": step, name: self._video(io.BytesIO(data), format="gif")})

    def close(self, ended: str) -> None:
        self._run.summary["ended"] = ended
        self._run.finish(exit_code=1 if ended == "failed" else 0)


class Mlflow:
    """Connection to MLflow, like ``Wandb``.

    Settings are parameters, which MLflow does not allow to change. Settings that a
    resumed run changed are in the tag of its ``options`` event. The newest event of
    each kind is a tag, ``event.<kind>``; alarms are ``alarm.<name>``. All events and
    metrics are in ``metrics.jsonl``, which becomes an artifact when the run ends.
    """

    title = "MLflow"

    def __init__(self, folder: Path, settings: dict[str, Any], ids: dict[str, str]):
        import mlflow  # pyright: ignore[reportMissingImports]  not in dev
        from mlflow.entities import Metric, Param  # pyright: ignore[reportMissingImports]  not in dev

        self._metric, self._folder = Metric, folder
        self._client = client = mlflow.MlflowClient()
        if "run_id" in ids:
            self._id = ids["run_id"]
            client.update_run(self._id, status="RUNNING")
        else:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
            experiment = client.get_experiment_by_name(name)
            id = experiment.experiment_id if experiment else None
            id = id or client.create_experiment(name)
            self._id = client.create_run(id, run_name=folder.name).info.run_id
            params = [Param(k, str(x)[:_LONGEST]) for k, x in settings.items()]
            for i in range(0, len(params), _BATCH):
                client.log_batch(self._id, params=params[i : i + _BATCH])
        self.ids = {"run_id": self._id}
        self.where = f"run {self._id} of {mlflow.get_tracking_uri()}"

    def write(self, step: int, metrics: dict[str, float]) -> None:
        now = int(time.time() * 1000)
        values = [self._metric(k, float(x), now, step) for k, x in metrics.items()]
        if values:
            self._client.log_batch(self._id, metrics=values)

    def event(self, line: dict[str, Any]) -> None:
        kind = line["event"]
        tag = f"alarm.{line['name']}" if kind == "alarm" else f"event.{kind}"
        self._client.set_tag(self._id, tag, _text(line, "event")[:_LONGEST])

    def video(self, name: str, data: bytes, step: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{name.replace('/', '-')}-{step:012d}.gif"
            file.write_bytes(data)
            self._client.log_artifact(self._id, str(file), "videos")

    def close(self, ended: str) -> None:
        self._client.log_artifact(self._id, str(self._folder / "metrics.jsonl"))
        self._client.set_terminated(self._id, _STATUS[ended])


def _text(line: dict[str, Any], *without: str) -> str:
    """Return the text of an event, or its fields."""
    fields = [f"{name}: {value}" for name, value in line.items() if name not in without]
    return str(line.get("text") or ", ".join(fields))


KINDS = {"wandb": Wandb, "mlflow": Mlflow}
