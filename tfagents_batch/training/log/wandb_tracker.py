"""A run's log in Weights & Biases.

W&B's environment variables set the destination: ``WANDB_PROJECT``, ``WANDB_ENTITY``,
``WANDB_MODE=offline`` and so on.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

ALERTS = ("alarm", "env_failed", "failed")  # events that send an alert


class Wandb:
    """The connection that ``trackers.Tracker`` calls.

    Charts have environment steps on their x-axis. An event is a point of
    ``event/<kind>``; important events are also sent as alerts.

    Args:
      folder: folder of the run.
      settings: flat settings of the run.
      known: ``names`` of the resumed run; empty for a new one.

    Attributes:
      names: identifiers that a resumed run needs to continue here.
      where: text that says where to see the run.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], known: dict[str, str]):
        # Otherwise W&B asks for a key on the terminal, over the progress bar.
        os.environ.setdefault("WANDB_SILENT", "true")
        import wandb

        self._video = wandb.Video
        project = os.environ.get("WANDB_PROJECT", "tfagents_batch")
        self._run = run = wandb.init(
            project=known.get("project") or project,
            entity=known.get("entity"),
            id=known.get("id"),
            resume="allow" if known else None,
            name=folder.name,
            dir=str(folder),
            config=settings,
            allow_val_change=True,  # resumed runs may change settings
            # W&B must not capture stdout and stderr.
            settings=wandb.Settings(console="off"),
        )
        run.define_metric("step")
        run.define_metric("*", step_metric="step")
        self.names = {"id": run.id, "project": run.project}
        if run.entity:
            self.names["entity"] = run.entity
        self.where = run.dir if run.offline else run.url

    def write(self, step: int, metrics: dict[str, float]) -> None:
        self._run.log({"step": step, **metrics})

    def event(self, line: dict[str, Any]) -> None:
        kind, step = line["event"], line["step"]
        self._run.log({"step": step, f"event/{kind}": 1})
        if kind in ALERTS:
            fields = [
                f"{k}: {v}" for k, v in line.items() if k not in ("event", "step")
            ]
            text = line.get("text") or ", ".join(fields)
            self._run.alert(title=f"{kind} at step {step:,}", text=str(text))

    def video(self, name: str, data: bytes, step: int) -> None:
        self._run.log({"step": step, name: self._video(io.BytesIO(data), format="gif")})

    def close(self, ended: str) -> None:
        self._run.summary["ended"] = ended
        self._run.finish(exit_code=1 if ended == "failed" else 0)
