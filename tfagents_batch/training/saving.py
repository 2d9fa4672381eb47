"""Saving of the replay, and of the state of a run that a stop leaves behind."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch.clocks import EverySeconds
from tfagents_batch.devices import placement
from tfagents_batch.errors import SaveError
from tfagents_batch.experience import OwnFile
from tfagents_batch.training.run_folder import replay_file
from tfagents_batch.training.signals import Interrupts

_RATE = 200e6  # bytes per second, until the first replay is written
_SECONDS = 1.0  # shortest time between two copies of the state
_SHARE = 0.005  # largest share of the time for copies


class ReplaySaver:
    """Writes a replay after the weights of the same step.

    Args:
      source: source of the run, after it was restored; nothing is done if it is no
        replay.
      folder: run folder.
      step: environment steps so far; there is nothing new to save before the next one.
      event: called with the fields of an event.
    """

    def __init__(
        self,
        source: Any,
        folder: str | os.PathLike,
        step: int,
        event: Callable[[dict[str, Any]], None],
    ):
        self._source, self._folder, self._event = source, folder, event
        self._on = isinstance(source, OwnFile)
        self._clock = EverySeconds(source.config.save_every if self._on else 0)
        self._rate, self._saved = _RATE, step

    def due(self) -> bool:
        """Return whether the clock asks for a save."""
        return self._on and self._clock()

    def save(self, step: int, seconds_left: float) -> bool:
        """Write the replay, unless this step is saved or the time does not suffice.

        False means that it could not be written, such as on a full disk.
        """
        if not self._on or step == self._saved:
            return True
        variables = self._source.named_variables()
        size = replay_file.size(variables)
        if size / self._rate > seconds_left:
            self._failed(
                f"the replay ({size / 1e9:.1f} GB) is not saved, because its write "
                "does not fit the time after a signal; a resumed run uses an older "
                "one, or collects anew"
            )
            return True
        begin = time.perf_counter()
        try:
            replay_file.save(self._folder, step, variables)
        except SaveError as error:
            self._failed(str(error))
            return False
        self._saved = step
        # Only large replays tell the speed of the disk.
        if size > 1e8:
            self._rate = size / (time.perf_counter() - begin)
        return True

    def _failed(self, reason: str) -> None:
        self._event({"event": "replay_failed", "reason": reason})


def restore(source: Any, folder: str | os.PathLike, step: int, exact: bool) -> str:
    """Restore the replay of a resumed run; return a line for the console.

    The step is that of the weights. The environments can continue from their variables
    if it is ``exact``. The line is empty if the source is no replay.

    Raises:
      UserError: if the replay cannot be used.
    """
    if not isinstance(source, OwnFile):
        return ""
    saved = replay_file.newest(folder, step)
    if saved is None:
        begin = source.postpone(step)
        return f"there is no replay; updates begin after {begin:,} steps"
    same = exact and saved == step
    variables = {
        name: variable
        for name, variable in source.named_variables().items()
        if same or not name.startswith("inner/")
    }
    replay_file.load(folder, saved, variables, source.check_numbers)
    if not same:
        source.interrupt()
    text = f"restored the replay of step {saved:,}"
    if saved < step:
        return f"{text}; it lacks the last {step - saved:,} steps"
    return f"{text}, which is newer than the weights" if saved > step else text


class Rescue:
    """Copies the state of a run between iterations, and saves the newest copy.

    While a program runs it locks its variables, and an update may take minutes. A copy
    can be saved from another thread in the meantime.
    """

    def __init__(self, loop: Any):
        self._loop = loop
        self._step: int | None = None  # of the copy
        self._state: dict[str, Any] = {}
        self._values: dict[str, np.ndarray] = {}
        self._next = 0.0

    def refresh(self) -> None:
        """Copy the state if the last copy is not recent; no program may run."""
        begin = time.monotonic()
        if begin < self._next:
            return
        named = self._loop.variables().items()
        self._values = {name: np.array(variable.numpy()) for name, variable in named}
        self._step, self._state = self._loop.step, self._loop.state()
        end = time.monotonic()
        self._next = end + max(_SECONDS, (end - begin) / _SHARE)

    def save(self) -> None:
        """Save the newest copy, unless a newer checkpoint is saved, and end the log."""
        step, loop = self._step, self._loop
        saved = loop.saved
        if step is not None and (saved is None or step > saved):
            with placement.host():
                variables = {
                    name: tf.Variable(value, trainable=False)
                    for name, value in self._values.items()
                }
            try:
                loop.save(step, variables, self._state)
                saved = step
            except SaveError as error:
                loop.console.message(f"warning: {error}")
                loop.logger.event("checkpoint_failed", step, reason=str(error))
        loop.logger.event("stopped", saved or 0)


@contextlib.contextmanager
def rescued(interrupts: Interrupts, rescue: Rescue) -> Iterator[None]:
    """Save the state before the code inside if a stop has to leave it behind.

    ``Interrupts.rescue`` decides that; the copy of the state is refreshed first.
    """
    rescue.refresh()
    with interrupts.rescue(rescue.save):
        yield
