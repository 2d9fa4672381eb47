"""How the mean return of episodes comes along, from line to line."""

from __future__ import annotations

import math
from collections import deque

from tfagents_batch.training.symptom import Line

RETURN = "episode/return_mean"
START = 3  # lines that tell where a run began
WINDOW = 10  # lines, at least, of a mean
PART = 0.05  # of the run, at least, that a mean spans
# Of normal numbers, the mean distance of two is this many standard deviations.
_DISTANCE = 2 / math.sqrt(math.pi)


class Progress:
    """Where returns began, how far they came, where they are, and their noise.

    Args:
      steps: of the whole run.

    Attributes:
      count: of lines with returns.
      low, high: smallest and largest return of a line.
      start: mean of the first ``START`` lines; None before.
      recent: mean of the newest window; None before the first is full.
      best: largest ``recent`` so far.
    """

    def __init__(self, steps: int):
        self.count = 0
        self.low, self.high = math.inf, -math.inf
        self.start: float | None = None
        self.recent: float | None = None
        self.best: float | None = None
        self._span = PART * steps
        self._points: deque[tuple[int, float]] = deque()
        self._newest: float | None = None
        self._moved = 0.0
        self._sum = 0.0

    def add(self, line: Line) -> None:
        """Take a line, if it has a return."""
        value = line.metrics.get(RETURN)
        if value is None or not math.isfinite(value):
            return
        self.count += 1
        self.low, self.high = min(self.low, value), max(self.high, value)
        if self._newest is not None:
            self._moved += abs(value - self._newest)
        self._newest = value
        self._begin(value)
        self._window(line.step, value)

    @property
    def noise(self) -> float:
        """Standard deviation of a line's return, by the steps from line to line."""
        return self._moved / max(self.count - 1, 1) / _DISTANCE

    @property
    def gain(self) -> float:
        """How much better than at the start it ever was; 0 as long as unknown."""
        return 0.0 if self.best is None else self.best - self.start

    @property
    def kept(self) -> float:
        """Share of the gain that is still there; 1 without any."""
        return (self.recent - self.start) / self.gain if self.gain > 0 else 1.0

    @property
    def learned(self) -> bool:
        """Whether returns rose far beyond their noise, and stayed there."""
        return self.gain > 4 * self.noise and self.kept > 0.8

    def _begin(self, value: float) -> None:
        if self.start is None:
            self._sum += value
            if self.count == START:
                self.start = self._sum / START

    def _window(self, step: int, value: float) -> None:
        points = self._points
        points.append((step, value))
        while len(points) > WINDOW and step - points[1][0] >= self._span:
            points.popleft()
        if len(points) < WINDOW or step - points[0][0] < self._span:
            return
        self.recent = math.fsum(each for _, each in points) / len(points)
        self.best = self.recent if self.best is None else max(self.best, self.recent)
