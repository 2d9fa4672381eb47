"""Numbers of asynchronous training that adjust themselves while a run goes on."""

from __future__ import annotations

from typing import NamedTuple

from tfagents_batch.sources.queue import Queue, least_rows
from tfagents_batch.training.programs.tuner import Tuner

_SKIPPED = 0.2  # part of a window before it counts, while queues change
_PENALTY = 0.01  # share of the score for each update of lag above the limit


class Numbers(NamedTuple):
    """Numbers that may change between two programs.

    Attributes:
      agents: environments of each predictor that are stepped.
      predict_rows: environments whose actions are selected at once.
      predictors, trainers: threads that work; the others rest.
      update_pieces: pieces of an update.
    """

    agents: int
    predict_rows: int
    predictors: int
    trainers: int
    update_pieces: int


class Adjusting:
    """Measures windows of a run, and chooses the numbers of the next one.

    The score of a window is the number of transitions learned from in a second, less a
    penalty if the mean lag is above ``adjust_lag``.

    Args:
      source: predictors, and the settings.
      seed: seed of the order of changes.

    Attributes:
      choices: possible values of each number; a single one without ``adjust``.
    """

    def __init__(self, source: Queue, seed: int):
        config, part = source.config, source.parts[0]
        self._seconds, self._limit = config.adjust_seconds, config.adjust_lag
        self._least, self._length = config.train_rows, config.length
        self._size = size = part.size
        start = Numbers(
            part.batch,
            part.wait_for,
            len(source.parts),
            config.trainers,
            source.joined,
        )
        self.choices = {name: [value] for name, value in start._asdict().items()}
        if config.adjust:
            groups = part.batch // size
            rows = sorted({size << i for i in range(8) if size << i <= part.batch})
            self.choices = {
                "agents": [size * i for i in _spread(groups)],
                "predict_rows": sorted({*rows, part.wait_for}),
                "predictors": list(range(1, start.predictors + 1)),
                "trainers": list(range(1, start.trainers + 1)),
                "update_pieces": self._pieces(source.joined),
            }
        self._tuner = Tuner(self.choices, start._asdict(), seed)
        self._empty()

    @property
    def numbers(self) -> Numbers:
        """Numbers of the current window."""
        found = Numbers(**self._tuner.settings)
        rows = [x for x in self.choices["predict_rows"] if x <= found.agents]
        most = max(rows, default=found.predict_rows)
        found = found._replace(predict_rows=min(found.predict_rows, most))
        shape = found.agents, found.predict_rows, self._size, self._length
        rows, pieces = least_rows(*shape), self.choices["update_pieces"]
        least = min(x for x in pieces if x * rows >= self._least)
        return found._replace(update_pieces=max(found.update_pieces, least))

    def _pieces(self, joined: int) -> list[int]:
        """Return numbers of pieces that are enough also with the fewest agents."""
        found = [joined, 2 * joined, 4 * joined]
        while found[-1] * self._size * self._length < self._least:
            found.append(2 * found[-1])
        return found

    def add(self, seconds: float, rows: int, updates: int, lag: float) -> None:
        """Add updates to the window; a window that is over sets new numbers.

        Args:
          seconds: time that they took, without evaluations and checkpoints.
          rows: transitions that were learned from.
          updates: number of updates.
          lag: their mean lag.
        """
        self._passed += seconds
        if self._passed <= _SKIPPED * self._seconds:
            return
        self._counted += seconds
        self._rows += rows
        self._updates += updates
        self._lag += lag * updates
        if self._passed < self._seconds:
            return
        above = max(0.0, self._lag / self._updates - self._limit)
        self._tuner.observe(self._rows / self._counted / (1 + _PENALTY * above))
        self._empty()

    def _empty(self) -> None:
        self._passed = self._counted = self._lag = 0.0
        self._rows = self._updates = 0


def _spread(groups: int) -> list[int]:
    """Return up to nine numbers of groups, closer together where they are small."""
    found = {groups}
    for i in range(8):
        found |= {max(1, groups >> i), max(1, 3 * groups >> (i + 2))}
    return sorted(found)[-9:]
