"""A run's log in MLflow.

MLflow's environment variables set the destination: ``MLFLOW_TRACKING_URI``,
``MLFLOW_EXPERIMENT_NAME`` and so on.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

_STATUS = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
_BATCH = 100  # parameters per call, the limit of MLflow
_LONGEST = 500  # characters of a value, the limit of older servers


class Mlflow:
    """The connection that ``trackers.Tracker`` calls.

    Settings are parameters, which MLflow does not allow to change. Settings that a
    resumed run changed are in the tag of its ``options`` event. The newest event of
    each kind is a tag, ``event.<kind>``; alarms are ``alarm.<name>``. All events and
    metrics are in ``metrics.jsonl``, which becomes an artifact when the run ends.

    Args:
      folder: folder of the run.
      settings: flat settings of the run.
      known: ``names`` of the resumed run; empty for a new one.

    Attributes:
      names: identifiers that a resumed run needs to continue here.
      where: text that says where to see the run.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], known: dict[str, str]):
        import mlflow
        from mlflow.entities import Metric, Param

        self._metric, self._folder = Metric, folder
        self._client = client = mlflow.MlflowClient()
        if "run_id" in known:
            self._id = known["run_id"]
            client.update_run(self._id, status="RUNNING")
        else:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "tfagents_batch")
            found = client.get_experiment_by_name(name)
            number = found.experiment_id if found else client.create_experiment(name)
            self._id = client.create_run(number, run_name=folder.name).info.run_id
            texts = {name: str(value)[:_LONGEST] for name, value in settings.items()}
            params = [Param(name, text) for name, text in texts.items()]
            for i in range(0, len(params), _BATCH):
                client.log_batch(self._id, params=params[i : i + _BATCH])
        self.names = {"run_id": self._id}
        self.where = f"run {self._id} of {mlflow.get_tracking_uri()}"

    def write(self, step: int, metrics: dict[str, float]) -> None:
        now = int(time.time() * 1000)
        found = [self._metric(k, float(v), now, step) for k, v in metrics.items()]
        if found:
            self._client.log_batch(self._id, metrics=found)

    def event(self, line: dict[str, Any]) -> None:
        kind = line["event"]
        if kind == "alarm":
            name, text = f"alarm.{line['name']}", line["text"]
        else:
            fields = [f"{k}: {v}" for k, v in line.items() if k != "event"]
            name, text = f"event.{kind}", ", ".join(fields)
        self._client.set_tag(self._id, name, text[:_LONGEST])

    def video(self, name: str, data: bytes, step: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{name.replace('/', '-')}-{step:012d}.gif"
            file.write_bytes(data)
            self._client.log_artifact(self._id, str(file), "videos")

    def close(self, ended: str) -> None:
        self._client.log_artifact(self._id, str(self._folder / "metrics.jsonl"))
        self._client.set_terminated(self._id, _STATUS[ended])
