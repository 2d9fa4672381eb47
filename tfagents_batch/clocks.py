"""Clocks of periodic work, and the ratio of updates to steps.

A clock is called with the step and returns whether the work is due; its ``state()`` is
plain JSON and is saved in checkpoints.

    >>> should_log = Every(1000)
    >>> [step for step in range(0, 5000, 768) if should_log(step)]
    [1536, 3072, 4608]
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tfagents_batch.errors import UserError
from tfagents_batch.schedules import finite, whole

if TYPE_CHECKING:
    import tensorflow as tf


class Every:
    """Clock that is true when ``n`` or more steps have passed since it was last true.

    It does not miss multiples of ``n`` that batched steps jump over.

    Args:
      n: steps; 0 means never.
      first: whether the first call returns true.
    """

    def __init__(self, n: int, first: bool = False):
        self.n = whole(n, "n")
        self._last: int | None = None if first else 0

    def __call__(self, step: int) -> bool:
        if not self.due(step):
            return False
        self._last = int(step)
        return True

    def due(self, step: int) -> bool:
        """Return what a call would return, without changing the clock."""
        return self.next is not None and step >= self.next

    @property
    def next(self) -> int | None:
        """First step at which it is due; None means never."""
        if not self.n:
            return None
        return 0 if self._last is None else self._last + self.n

    def state(self) -> dict[str, int | None]:
        return {"last": self._last}

    def restore(self, state: dict[str, int | None]) -> None:
        self._last = state["last"]


class EverySeconds:
    """Clock that is true when ``seconds`` have passed since it was true or created.

    Args:
      seconds: 0 means never.
      clock: returns the time in seconds; only differences are used.
      first: whether the first call returns true.
    """

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        first: bool = False,
    ):
        self.seconds = finite(seconds, "seconds")
        if self.seconds < 0:
            raise UserError(f"seconds is {seconds}; expected at least 0")
        self._clock = clock
        self._last = -math.inf if first else clock()

    def __call__(self) -> bool:
        now = self._clock()
        if not self.seconds or now - self._last < self.seconds:
            return False
        self._last = now
        return True


class Ratio(NamedTuple):
    """Number of updates per environment step, as a fraction of integers."""

    updates: int  # p, updates per ``steps`` environment steps
    steps: int  # q
    start: int  # L, environment steps before the first update

    def due(self, start: tf.Tensor, before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
        """Return the number of updates due for steps ``before`` to ``after``, int32.

        max(0, (n' - L) p // q) - max(0, (n - L) p // q). The sum over many collects is
        exact and does not depend on their sizes.

        Args:
          start: i64 ``[]``, L; a resumed run may begin later than ``self.start``.
          before, after: i64 ``[]``, n and n'.
        """
        import tensorflow as tf

        def total(step):
            return tf.maximum((step - start) * self.updates // self.steps, 0)

        return tf.cast(total(after) - total(before), tf.int32)
