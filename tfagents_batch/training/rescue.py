"""Save a run whose iteration goes on after a stop signal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch import placement
from tfagents_batch.errors import SaveError
from tfagents_batch.training.record import Record
from tfagents_batch.training.runtime.signals import Interrupts

_SECONDS = 1.0  # shortest time between two copies
_SHARE = 0.005  # largest share of the time for copies


class Rescue:
    """Copies the state of a run between iterations, and saves the newest copy.

    While a program runs it locks its variables, and an update may take minutes. A copy
    can be saved from another thread in the meantime.
    """

    def __init__(self, record: Record):
        self._record = record
        self._step: int | None = None  # of the copy
        self._state: dict[str, Any] = {}
        self._values: dict[str, np.ndarray] = {}
        self._next = 0.0

    def refresh(self) -> None:
        """Copy the state if the last copy is not recent; no program may run."""
        begin = time.monotonic()
        if begin < self._next:
            return
        named = self._record.variables().items()
        self._values = {name: np.array(variable.numpy()) for name, variable in named}
        self._step, self._state = self._record.step, self._record.state()
        end = time.monotonic()
        self._next = end + max(_SECONDS, (end - begin) / _SHARE)

    def save(self) -> None:
        """Save the newest copy, unless a newer checkpoint is saved, and end the log."""
        step, record = self._step, self._record
        saved = record.saved
        if step is not None and (saved is None or step > saved):
            with placement.host():
                variables = {
                    name: tf.Variable(value, trainable=False)
                    for name, value in self._values.items()
                }
            try:
                record.save(step, variables, self._state)
                saved = step
            except SaveError as error:
                record.console.message(f"warning: {error}")
                record.logger.event("checkpoint_failed", step, reason=str(error))
        record.logger.event("stopped", saved or 0)


@contextlib.contextmanager
def rescued(interrupts: Interrupts, rescue: Rescue) -> Iterator[None]:
    """Save the state before the code inside if a stop has to leave it behind.

    Args:
      interrupts: decides that, see ``Interrupts.rescue``.
      rescue: of the run that the code trains; refreshed first.
    """
    rescue.refresh()
    with interrupts.rescue(rescue.save):
        yield
