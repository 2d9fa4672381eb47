"""Output of one run: its folder, the console and the user's callbacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfagents_batch import placement
from tfagents_batch.errors import SaveError
from tfagents_batch.training.callbacks import Callbacks
from tfagents_batch.training.diagnostics.alarms import Alarms
from tfagents_batch.training.log.console import Console
from tfagents_batch.training.log.logger import Logger
from tfagents_batch.training.run_folder import checkpoint


class Output:
    """Writes the lines, events and checkpoints of a training loop.

    Args:
      folder: run folder; its lock is held.
      logger: logger of the folder.
      console: shows progress, warnings and alarms.
      variables: returns the variables of a checkpoint, ``{name: variable}``.
      alarms: check every line of metrics.
      callbacks: the user's callbacks.
      seed: with runs of several seeds on one console, the seed named in alarms. Events
        then concern all of these runs, so they are not printed here.
    """

    def __init__(
        self,
        folder: Path,
        logger: Logger,
        console: Console,
        variables: Callable[[], dict[str, Any]],
        alarms: Alarms,
        callbacks: Callbacks,
        seed: int | None = None,
    ):
        self.folder, self.logger, self.callbacks = folder, logger, callbacks
        self.console, self.variables = console, variables
        self._alarms, self._seed = alarms, seed

    def write(self, metrics: dict[str, Any], step: int) -> None:
        """Add a line of metrics."""
        self.logger.write(metrics, step)
        of_seed = "" if self._seed is None else f" of seed {self._seed}"
        for alarm in self._alarms.check(metrics, step):
            self.console.message(f"alarm{of_seed}: {alarm.text}")
            self.logger.event("alarm", step, name=alarm.name, text=alarm.text)

    def event(self, event: dict[str, Any], step: int) -> None:
        """Log an event, with its kind under ``event``, and print it on the console."""
        fields = dict(event)
        self.logger.event(fields.pop("event"), step, **fields)
        if self._seed is None:
            text = _console_line(event)
        else:
            text = _below_best(event, f" of seed {self._seed}")
        if text:
            is_note = event["event"] == "compiled"
            (self.console.note if is_note else self.console.message)(text)

    def save(self, step: int, state: dict, metadata: dict) -> bool:
        """Write a checkpoint; return False if that fails, such as on a full disk."""
        try:
            path = checkpoint.save(
                self.folder, step, self.variables(), state, metadata=metadata
            )
        except SaveError as error:
            self.console.message(f"warning: {error}; will try again")
            self.logger.event("checkpoint_failed", step=step, reason=str(error))
            return False
        self.callbacks.checkpoint(step, path, bool(metadata.get("best")))
        return True

    def save_copy(self, step: int, state: dict, values: dict[str, Any]) -> bool:
        """Write a checkpoint of copied values; callbacks are not called.

        Another thread may call it while a program holds the variables themselves.
        """
        with placement.host():
            variables = {
                name: tf.Variable(value, trainable=False)
                for name, value in values.items()
            }
        try:
            checkpoint.save(self.folder, step, variables, state)
        except SaveError as error:
            self.console.message(f"warning: {error}")
            self.logger.event("checkpoint_failed", step=step, reason=str(error))
            return False
        return True


def _console_line(event: dict[str, Any]) -> str:
    """Return the console line of an event; empty if it has none."""
    kind = event["event"]
    if kind == "env_failed":
        return f"warning: {event['cause']}; it will be replaced"
    if kind == "env_restarted":
        first, last = event["envs"][0], event["envs"][-1]
        envs = f"env {first}" if first == last else f"envs {first} to {last}"
        seconds, lost = event["seconds"], event["lost_steps"]
        return f"replaced {envs} after {seconds:.1f} s; {lost} steps are lost"
    if kind == "replay_failed":
        return f"warning: {event['reason']}"
    if kind == "pool_worker_restarted":
        return f"warning: worker {event['worker']} is replaced: {event['reason']}"
    if kind == "pool_spilled":
        return (
            f"warning: Ray's memory is full, and {event['bytes'] / 1e6:,.0f} MB were "
            "written to disks; use smaller rollouts, or give Ray more memory"
        )
    if kind == "compiled":
        return f"compile={event['compile']}: {event['reason']}"
    return _below_best(event)


def _below_best(event: dict[str, Any], of_seed: str = "") -> str:
    """Return the console line of a last evaluation below the best; empty if it is not.

    Args:
      event: any event.
      of_seed: text that names the seed, in a run of several.
    """
    if event["event"] != "below_best":
        return ""
    step = event["best_step"]
    return (
        f"the last evaluation{of_seed} has a {event['measure']} of "
        f"{event['last']:.4g}, below the best one, {event['best']:.4g} at step "
        f"{step:,}; use that checkpoint with --checkpoint=best"
    )
