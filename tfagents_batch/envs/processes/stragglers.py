"""Detection of workers that are much slower than the others."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import numpy as np

_LOG = logging.getLogger("tfagents_batch")
FACTOR = 10.0  # multiple of the median step time
PATIENCE_SECONDS = 60.0


class Stragglers:
    """Compares the durations of each worker's last steps."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._since: dict[int, float] = {}
        self._warned: set[int] = set()

    def measure(self, timing: np.ndarray) -> dict[str, float]:
        """Return metrics of uint32 ``[W, n]``: microseconds + 1 of steps, 0 if empty.

        ``time/worker_step_ms_p50`` is the median of the workers' medians, ``..._p99``
        the slowest worker's 99th percentile. A warning names a worker with more than
        ``FACTOR`` times the median for ``PATIENCE_SECONDS``.
        """
        rows = {i: row[row > 0] - 1.0 for i, row in enumerate(timing) if row.any()}
        if not rows:
            return {}
        median = float(np.median([np.median(row) for row in rows.values()]))
        slow = {i: float(np.percentile(row, 99)) for i, row in rows.items()}
        times = {
            "time/worker_step_ms_p50": median / 1000,
            "time/worker_step_ms_p99": max(slow.values()) / 1000,
        }
        now = self._clock()
        late = {i for i, p99 in slow.items() if p99 > FACTOR * max(median, 1.0)}
        self._since = {i: self._since.get(i, now) for i in late}
        for i, since in self._since.items():
            if now - since >= PATIENCE_SECONDS and i not in self._warned:
                self._warned.add(i)
                _LOG.warning(
                    "worker %d slows down the others: its slowest steps take %.1f ms, "
                    "the median over workers is %.1f ms; give its environments more "
                    "workers, or use send and receive",
                    *(i, slow[i] / 1000, median / 1000),
                )
        return times
