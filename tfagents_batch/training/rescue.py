"""Save a run whose iteration goes on after a stop signal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.training.output import Output
from tfagents_batch.training.record import Record
from tfagents_batch.training.runtime.signals import Interrupts

_SECONDS = 1.0  # shortest time between two copies
_SHARE = 0.005  # largest share of the time for copies


class Copy(NamedTuple):
    """State of a run between two iterations.

    Attributes:
      step: environment steps done.
      state: see ``Record.state``.
      values: of all variables in a checkpoint, by name.
    """

    step: int
    state: dict[str, Any]
    values: dict[str, np.ndarray]


class Rescue:
    """Copies the state of a run between iterations, and saves the newest copy.

    While a program runs it locks its variables, and an update may take minutes. A copy
    can be saved from another thread in the meantime.
    """

    def __init__(self, output: Output, record: Record):
        self._output, self._record = output, record
        self._copy: Copy | None = None
        self._next = 0.0

    def refresh(self) -> None:
        """Copy the state if the last copy is not recent; no program may run."""
        begin = time.monotonic()
        if begin < self._next:
            return
        named = self._output.variables().items()
        values = {name: np.array(variable.numpy()) for name, variable in named}
        self._copy = Copy(self._record.step, self._record.state(), values)
        end = time.monotonic()
        self._next = end + max(_SECONDS, (end - begin) / _SHARE)

    def save(self) -> None:
        """Save the newest copy, unless a newer checkpoint is saved, and end the log."""
        copy, saved = self._copy, self._record.saved
        newer = copy is not None and (saved is None or copy.step > saved)
        if newer and self._output.save_copy(*copy):
            saved = copy.step
        self._output.event({"event": "stopped"}, saved or 0)


@contextlib.contextmanager
def rescued(interrupts: Interrupts, rescues: Sequence[Rescue]) -> Iterator[None]:
    """Save the state before the code inside if a stop has to leave it behind.

    Args:
      interrupts: decides that, see ``Interrupts.rescue``.
      rescues: those of the runs that the code trains; refreshed first.
    """
    for each in rescues:
        each.refresh()

    def save() -> None:
        for each in rescues:
            each.save()

    with interrupts.rescue(save):
        yield
