"""Search for the fastest numbers of asynchronous training while a run goes on.

GA3C (Babaeizadeh et al. 2017, section 3.2) changes several numbers at random and keeps
what was better than the window before, for ever. Here a single number changes at a
time, the best known numbers and the candidate are measured in turn, a candidate has to
be better by more than the noise, steps shrink, and the search ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

MARGIN = 0.03  # share by which a candidate has to be better, beyond the noise
ERRORS = 1.5  # standard errors of a difference that count as noise
PAIRS = 2, 6  # fewest and most measurements of incumbent and candidate
DROP, WATCHED = 0.1, 3  # loss of score, in so many windows, that starts a new search
SKIPPED = 0.2  # share of a window before it counts, while queues change
PENALTY = 0.01  # share of the score for each update of lag above the limit


class AutoTuner:
    """Hill climbing, one number at a time, on the speed in windows of a run.

    The score of a window is the number of transitions learned from in a second, less a
    penalty if the mean lag is above a limit. ``numbers`` are those to use now.

    Args:
      values: ``{name: possible values}``, in increasing order.
      start: ``{name: value}``.
      seed: seed of the order of changes.
      seconds: length of a window.
      most_lag: mean lag in updates without a penalty.

    Attributes:
      settled: whether the search has ended.
      changed: number of changes that were kept.
    """

    def __init__(
        self,
        values: Mapping[str, Sequence[int]],
        start: Mapping[str, int],
        seed: int,
        seconds: float = 20.0,
        most_lag: float = 50.0,
    ):
        self._values = {name: list(each) for name, each in values.items()}
        self._best = {name: self._values[name].index(start[name]) for name in values}
        self._random = np.random.default_rng(seed)
        self._seconds, self._most_lag = seconds, most_lag
        self.changed, self._level = 0, 0.0
        self._begin()
        self._open_window()

    @property
    def numbers(self) -> dict[str, int]:
        """Numbers of the current window."""
        places = self._candidate if self._on_candidate else self._best
        return {name: self._values[name][i] for name, i in places.items()}

    def add(self, seconds: float, rows: int, updates: int, lag: float) -> None:
        """Add updates to the window; a window that is over sets new numbers.

        Args:
          seconds: time that they took, without evaluations and checkpoints.
          rows: transitions that were learned from.
          updates: number of updates.
          lag: their mean lag.
        """
        self._passed += seconds
        if self._passed > SKIPPED * self._seconds:
            self._counted += np.array([seconds, rows, updates, lag * updates])
        if self._passed < self._seconds or not self._counted[2]:
            return
        took, learned, made, late = self._counted
        above = max(0.0, late / made - self._most_lag)
        self.observe(learned / took / (1 + PENALTY * above))
        self._open_window()

    def observe(self, score: float) -> None:
        """Take the score of a window with ``numbers``, and choose the next ones."""
        if self.settled:  # search again if scores stay low
            self._low = self._low + 1 if score < (1 - DROP) * self._level else 0
            if self._low == WATCHED:
                self._begin()
            return
        self._scores[self._on_candidate].append(score)
        self._on_candidate = not self._on_candidate
        if len(self._scores[1]) >= PAIRS[0] and not self._on_candidate:
            self._decide()

    def _open_window(self) -> None:
        self._passed, self._counted = 0.0, np.zeros(4)

    def _begin(self) -> None:
        """Start the search from the best numbers."""
        self.settled, self._low = False, 0
        self._candidates = self._search()
        self._next()

    def _search(self) -> Iterator[tuple[str, int]]:
        """Yield changes, by how many of its values a number moves.

        Both directions of every number come in turn, with smaller steps after a turn in
        which nothing was kept.
        """
        steps = {name: max(1, len(each) // 4) for name, each in self._values.items()}
        while True:
            before = self.changed
            changes = [
                (name, x * sign) for name, x in steps.items() for sign in (1, -1)
            ]
            for index in self._random.permutation(len(changes)):
                kept = None
                while kept != self.changed:  # further in a direction that was better
                    kept = self.changed
                    yield changes[index]
            if self.changed == before:
                if all(step == 1 for step in steps.values()):
                    return
                steps = {name: max(1, step // 2) for name, step in steps.items()}

    def _next(self) -> None:
        """Choose the next candidate; the search ends if there is none."""
        self._on_candidate, self._scores = False, ([], [])
        for name, by in self._candidates:
            place = min(max(self._best[name] + by, 0), len(self._values[name]) - 1)
            if place != self._best[name]:
                self._candidate = self._best | {name: place}
                return
        self.settled, self._candidate = True, self._best

    def _decide(self) -> None:
        """Keep the candidate, reject it, or measure both once more."""
        before, after = (float(np.mean(x)) for x in self._scores)
        count = len(self._scores[1])
        variance = sum(float(np.var(x, ddof=1)) for x in self._scores) / count
        gain, noise, least = after - before, ERRORS * variance**0.5, MARGIN * before
        self._level = before
        if gain - noise > least:
            self._best, self._level = self._candidate, after
            self.changed += 1
        elif gain + noise > least and count < PAIRS[1]:
            return
        self._next()
