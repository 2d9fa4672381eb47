"""Connections to Weights & Biases and MLflow, used by ``trackers`` in its thread.

``write`` gets a step and finite numbers by their log names, ``event`` a line of
``metrics.jsonl``, ``video`` a name, an animated GIF and a step, and ``close`` the end
of the run: "finished", "stopped" or "failed".

Environment variables of the packages set the destination: ``WANDB_PROJECT``,
``WANDB_MODE=offline``, ``MLFLOW_TRACKING_URI``, ``MLFLOW_EXPERIMENT_NAME`` and so on.
"""

from __future__ import annotations

import io
import os
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = "tfagents_batch"  # default of both
ALERTS = ("alarm", "env_failed", "failed")  # events that send an alert
_STATUS = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_BATCH = 100  # parameters per call, the limit of MLflow
_LONGEST = 500  # characters of a value, the limit of older MLflow servers


class Wandb:
    """Connection to Weights & Biases.

    Charts have environment steps on their x-axis. An event is a point of
    ``event/<kind>``; important events are also sent as alerts.

    Args:
      folder: folder of the run.
      settings: flat settings of the run.
      ids: ``ids`` of the resumed run; empty for a new one.

    Attributes:
      ids: identifiers that a resumed run needs to continue here.
      where: text that says where to see the run.
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


KINDS = {"wandb": Wandb, "mlflow": Mlflow}


def _text(line: dict[str, Any], *without: str) -> str:
    """Return the text of an event, or its fields."""
    fields = [f"{name}: {value}" for name, value in line.items() if name not in without]
    return str(line.get("text") or ", ".join(fields))
