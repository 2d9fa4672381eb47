"""A training that ends when evaluations have a mean return."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil

from benchmarks.inside import session
from benchmarks.work.works import Learning, versions


class Learned:
    """Session that trains once; its figure is the tasks that it would learn in an hour.

    Args:
      work: what to learn.
      learn: function that trains until the threshold, and returns the env steps; None
        if it was not reached.
      own: properties that may differ between contenders.
      *packages: the contender's own packages.
    """

    unit = "tasks an hour"

    def __init__(
        self,
        work: Learning,
        learn: Callable[[], int | None],
        own: dict[str, Any],
        *packages: str,
    ):
        self.same, self.own, self.versions = work.same(), own, versions(*packages)
        self._learn = learn
        self._measured: session.Measured | None = None

    def measure(self, seconds: float, blocks: int | None) -> session.Measured:
        """Train in the first call, and return the seconds since the process started."""
        if self._measured is None:
            steps = self._learn()
            if steps is None:
                raise RuntimeError("training ended below the threshold")
            passed = time.time() - psutil.Process().create_time()
            self._measured = session.Measured(steps, passed, 3600 / passed)
        return self._measured

    def close(self) -> None:
        pass
