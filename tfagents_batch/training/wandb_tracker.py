"""A run's log in Weights & Biases.

Where it goes is W&B's own business: ``WANDB_PROJECT``, ``WANDB_ENTITY``,
``WANDB_MODE=offline`` and the rest of its environment variables hold.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfagents_batch.config import flat
from tfagents_batch.training.tracker import PROJECT, read_id, write_id

FILE = "wandb.json"
ALERTS = ("alarm", "env_failed", "failed")  # events that a person should hear of


class WandbTracker:
    """See ``tracker.Tracker``.

    Charts have environment steps on their x-axis. An event is a point of
    ``event/<kind>``; those that a person should hear of are alerts too.

    Args:
      folder: of the run.
      config: JSON-able, nested.
      tell: takes a line of text for the user; from any thread.
    """

    def __init__(
        self, folder: Path, config: dict[str, Any], tell: Callable[[str], None]
    ):
        # Or it asks for a key on the terminal, where the progress is.
        os.environ.setdefault("WANDB_SILENT", "true")
        import wandb

        self._wandb = wandb
        path = folder / FILE
        known = read_id(path)
        self._run = wandb.init(
            project=known.get("project") or os.environ.get("WANDB_PROJECT", PROJECT),
            entity=known.get("entity") or None,
            id=known.get("id"),
            resume="allow" if known else None,
            name=folder.name,
            dir=str(folder),
            config=flat(config),
            allow_val_change=True,  # what a resumed run may change
            # Our lines are ours: W&B is not to capture stdout and stderr.
            settings=wandb.Settings(console="off"),
        )
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")
        names = {"id": self._run.id, "project": self._run.project}
        if self._run.entity:
            names["entity"] = self._run.entity
        write_id(path, **names)
        where = self._run.dir if self._run.offline else self._run.url
        tell(f"Weights & Biases: {where}")

    def write(self, step: int, metrics: dict[str, float]) -> None:
        self._run.log({"step": step, **metrics})

    def event(self, line: dict[str, Any]) -> None:
        kind = line["event"]
        self._run.log({"step": line["step"], f"event/{kind}": 1})
        if kind in ALERTS:
            told = [f"{k}: {v}" for k, v in line.items() if k not in ("event", "step")]
            text = line.get("text") or ", ".join(told)
            self._run.alert(title=f"{kind} at step {line['step']:,}", text=str(text))

    def video(self, name: str, data: bytes, step: int) -> None:
        video = self._wandb.Video(io.BytesIO(data), format="gif")
        self._run.log({"step": step, name: video})

    def close(self, ended: str) -> None:
        self._run.summary["ended"] = ended
        self._run.finish(exit_code=1 if ended == "failed" else 0)
