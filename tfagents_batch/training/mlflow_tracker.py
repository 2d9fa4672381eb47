"""A run's log in MLflow.

Where it goes is MLflow's own business: ``MLFLOW_TRACKING_URI``,
``MLFLOW_EXPERIMENT_NAME`` and the rest of its environment variables hold.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfagents_batch.config import flat
from tfagents_batch.training.logger import FILE as METRICS
from tfagents_batch.training.tracker import PROJECT, read_id, write_id

FILE = "mlflow.json"
_STATUS = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_BATCH = 100  # parameters a call, MLflow's most
_LONGEST = 500  # characters of a value: older servers take no more


class MlflowTracker:
    """See ``tracker.Tracker``.

    Settings are parameters; those that a resumed run changed, which MLflow does not
    allow, are in the tag of its ``options`` event. Of every kind of event the newest is
    a tag, ``event.<kind>``; alarms are ``alarm.<name>``. All of them, with every line
    of metrics, are in ``metrics.jsonl``, an artifact when the run has ended.

    Args:
      folder: of the run.
      config: JSON-able, nested.
      tell: takes a line of text for the user; from any thread.
    """

    def __init__(
        self, folder: Path, config: dict[str, Any], tell: Callable[[str], None]
    ):
        import mlflow
        from mlflow.entities import Metric, Param

        self._metric, self._param = Metric, Param
        self._folder = folder
        self._client = client = mlflow.MlflowClient()
        path = folder / FILE
        known = read_id(path).get("run_id")
        self._id = known or self._create()
        if known:
            client.update_run(known, status="RUNNING")
        else:
            self._parameters(config)
            write_id(path, run_id=self._id)
        where = mlflow.get_tracking_uri()
        tell(f"MLflow: run {self._id} of {where}")

    def write(self, step: int, metrics: dict[str, float]) -> None:
        now = int(time.time() * 1000)
        found = [self._metric(k, float(v), now, step) for k, v in metrics.items()]
        if found:
            self._client.log_batch(self._id, metrics=found)

    def event(self, line: dict[str, Any]) -> None:
        kind = line["event"]
        if kind == "alarm":
            name, text = f"alarm.{line.get('name')}", line.get("text")
        else:
            told = [f"{k}: {v}" for k, v in line.items() if k != "event"]
            name, text = f"event.{kind}", ", ".join(told)
        self._client.set_tag(self._id, name, str(text)[:_LONGEST])

    def video(self, name: str, data: bytes, step: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{name.replace('/', '-')}-{step:012d}.gif"
            file.write_bytes(data)
            self._client.log_artifact(self._id, str(file), "videos")

    def close(self, ended: str) -> None:
        log = self._folder / METRICS
        if log.exists():
            self._client.log_artifact(self._id, str(log))
        self._client.set_terminated(self._id, _STATUS[ended])

    def _create(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        experiment = self._client.get_experiment_by_name(name)
        number = (
            self._client.create_experiment(name)
            if experiment is None
            else experiment.experiment_id
        )
        run = self._client.create_run(number, run_name=self._folder.name)
        return run.info.run_id

    def _parameters(self, config: dict[str, Any]) -> None:
        settings = [
            self._param(name, str(value)[:_LONGEST])
            for name, value in flat(config).items()
        ]
        for i in range(0, len(settings), _BATCH):
            self._client.log_batch(self._id, params=settings[i : i + _BATCH])
