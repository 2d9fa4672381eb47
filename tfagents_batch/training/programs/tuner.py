"""Search for the settings with the highest score while a run goes on.

GA3C (Babaeizadeh et al. 2017, section 3.2) changes several numbers at random and keeps
what was better than the window before, for ever. Here a single number changes at a
time, the best settings known and the candidate are measured in turn, a candidate has to
be better by more than the noise, steps shrink, and the search ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

MARGIN = 0.03  # share by which a candidate has to be better, beyond the noise
ERRORS = 1.5  # standard errors of a difference that count as noise
DROP = 0.1  # loss of score that starts the search again
PAIRS = 2, 6  # fewest and most measurements of incumbent and candidate
WATCHED = 3  # windows in a row with such a loss


class Change(NamedTuple):
    """Change of a number: its name, and by how many of its values."""

    name: str
    by: int


class Tuner:
    """Hill climbing, one number at a time, on noisy scores.

    Call ``observe`` with the score of every window; ``settings`` are those of the next.

    Args:
      values: ``{name: possible values}``, in increasing order.
      start: ``{name: value}``.
      seed: seed of the order of changes.

    Attributes:
      settled: whether the search has ended.
      changed: number of changes that were kept.
    """

    def __init__(
        self, values: Mapping[str, Sequence[Any]], start: Mapping[str, Any], seed: int
    ):
        self._values = {name: list(each) for name, each in values.items()}
        self._best = {name: self._values[name].index(start[name]) for name in values}
        self._random = np.random.default_rng(seed)
        self.changed, self._level = 0, 0.0
        self._begin()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the next window."""
        places = self._candidate if self._on_candidate else self._best
        return {name: self._values[name][i] for name, i in places.items()}

    @property
    def best(self) -> dict[str, Any]:
        """The best settings known."""
        return {name: self._values[name][i] for name, i in self._best.items()}

    def observe(self, score: float) -> None:
        """Take the score of a window with ``settings``, and choose the next ones."""
        if self.settled:
            self._watch(score)
            return
        self._scores[self._on_candidate].append(score)
        self._on_candidate = not self._on_candidate
        if len(self._scores[1]) >= PAIRS[0] and not self._on_candidate:
            self._decide()

    def _begin(self) -> None:
        """Start the search from the best settings."""
        self._steps = {
            name: max(1, len(each) // 4) for name, each in self._values.items()
        }
        self.settled, self._low = False, 0
        self._plan: list[Change] = []
        self._failed: set[str] = set()
        self._next()

    def _next(self) -> None:
        """Choose the next change; the search ends if there is none."""
        self._on_candidate, self._scores = False, ([], [])
        self._candidate = self._best
        while True:
            if not self._plan and not self._refill():
                self.settled = True
                return
            change = self._plan.pop()
            place = self._best[change.name] + change.by
            place = min(max(place, 0), len(self._values[change.name]) - 1)
            if place != self._best[change.name]:
                self._change = change
                self._candidate = self._best | {change.name: place}
                return

    def _refill(self) -> bool:
        """Plan both directions of every number, with smaller steps after failures."""
        if len(self._failed) == len(self._values):  # no change helped in a whole round
            if all(step == 1 for step in self._steps.values()):
                return False
            self._steps = {name: max(1, x // 2) for name, x in self._steps.items()}
        self._failed = set(self._values)
        changes = [
            Change(name, sign * step)
            for name, step in self._steps.items()
            for sign in (1, -1)
        ]
        self._random.shuffle(changes)
        self._plan = [Change(*each) for each in changes]
        return True

    def _decide(self) -> None:
        """Keep the candidate, reject it, or measure both once more."""
        before, after = (float(np.mean(x)) for x in self._scores)
        count = len(self._scores[1])
        variance = sum(float(np.var(x, ddof=1)) for x in self._scores) / count
        gain, noise = after - before, ERRORS * variance**0.5
        least = MARGIN * abs(before)
        if gain - noise > least:
            self._best, self._level = self._candidate, after
            self._failed.discard(self._change.name)
            self.changed += 1
            self._plan.append(self._change)  # further in the same direction
        elif gain + noise > least and count < PAIRS[1]:
            return
        else:
            self._level = before
        self._next()

    def _watch(self, score: float) -> None:
        """Search again if scores stay low."""
        self._low = self._low + 1 if score < (1 - DROP) * self._level else 0
        if self._low == WATCHED:
            self._begin()
