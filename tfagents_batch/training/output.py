"""Where the results of one run go: its folder's lines and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfagents_batch.errors import SaveError
from tfagents_batch.training import checkpoint
from tfagents_batch.training.alarms import Alarms
from tfagents_batch.training.console import Console
from tfagents_batch.training.hooks import Hooks
from tfagents_batch.training.logger import Logger


class Output:
    """Writes what a training loop says to a run folder.

    Args:
      folder: of the run, its lock held.
      logger: of the folder.
      console: takes warnings.
      variables: says what a checkpoint is to hold, ``{name: variable}``.
      alarms: look at every line of metrics.
      hooks: are told of checkpoints.
      seed: said on the console, where runs of several share it; events, which are of
        all of them, are not.

    Attributes:
      latest: newest value of every scalar metric.
    """

    def __init__(
        self,
        folder: Path,
        logger: Logger,
        console: Console,
        variables: Callable[[], dict[str, Any]],
        alarms: Alarms,
        hooks: Hooks,
        seed: int | None = None,
    ):
        self.folder, self.logger = folder, logger
        self.latest: dict[str, float] = {}
        self._console, self._variables = console, variables
        self._alarms, self._hooks = alarms, hooks
        self._alone = seed is None
        self._of_seed = "" if seed is None else f" of seed {seed}"

    def write(self, metrics: dict[str, Any], step: int) -> None:
        """Add a line of metrics."""
        self.latest |= {k: v for k, v in metrics.items() if np.ndim(v) == 0}
        self.logger.write(metrics, step)
        for alarm in self._alarms.check(metrics, step):
            self._console.message(f"alarm{self._of_seed}: {alarm.text}")
            self.logger.event("alarm", step, name=alarm.name, text=alarm.text)

    def tell(self, event: dict[str, Any], step: int) -> None:
        """Add the line of something that happened, and say it on the console.

        Args:
          event: its kind under ``event``, and what there is to say of it.
          step: env steps.
        """
        fields = dict(event)
        self.logger.event(fields.pop("event"), step, **fields)
        if (text := sentence(event)) and self._alone:
            self._console.message(text)

    def save(self, step: int, state: dict, metadata: dict) -> bool:
        """Write a checkpoint; a full disk, which gives false, ends no training."""
        try:
            path = checkpoint.save(
                self.folder, step, self._variables(), state, metadata=metadata
            )
        except SaveError as error:
            self._console.message(f"warning: {error}; will try again")
            self.logger.event("checkpoint_failed", step=step, reason=str(error))
            return False
        self._hooks.checkpoint(step, path, bool(metadata.get("best")))
        return True


def sentence(event: dict[str, Any]) -> str:
    """What a person who watches the run is told of an event; empty if nothing."""
    kind = event["event"]
    if kind == "env_failed":
        return f"warning: {event['cause']}; it will be replaced"
    if kind == "env_restarted":
        envs, seconds = _numbered(event["envs"]), event["seconds"]
        lost = event["lost_steps"]
        return f"replaced {envs} after {seconds:.1f} s; {lost} steps are lost"
    if kind == "compiled":
        return f"compile={event['compile']}: {event['reason']}"
    return ""


def _numbered(envs: Sequence[int]) -> str:
    """For example "env 3" or "envs 4 to 7"."""
    return f"env {envs[0]}" if len(envs) == 1 else f"envs {envs[0]} to {envs[-1]}"
