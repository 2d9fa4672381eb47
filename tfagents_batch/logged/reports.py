"""Reports on logged rows: errors of values, and actions, see ``row_metrics``.

They take the place of episodes where there is no environment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch.interfaces import Algorithm, Assessment, BoxAssessment
from tfagents_batch.logged import row_metrics, table
from tfagents_batch.logged.row_metrics import Metrics, Rows
from tfagents_batch.offline.table_reader import Columns
from tfagents_batch.placement import Placement

ROWS = 4096  # of a call
TRAINED, KEPT = "td_loss", "eval_td_loss"  # tags of rows for training, and evaluation


class Report(NamedTuple):
    """Result of a report.

    Attributes:
      values: metrics by name, see ``row_metrics``.
      score: what is better in a checkpoint, see ``_score``. NaN if it is unknown.
      measure: what the score is, in words.
    """

    values: Metrics
    score: float
    measure: str = "score (actions/gain - actions/gain_error)"
    mean_return = math.nan  # there are no episodes

    def metrics(self) -> Metrics:
        """Return log metrics."""
        return self.values


class Reporter:
    """Reports on rows.

    Args:
      algorithm: with ``assess``.
      rows: by the tag of their TD errors. All other metrics are of the last ones.
        There is a score if some are ``KEPT``: rows for training choose nothing.
      names: names of Discrete actions; empty for a Box.
      placement: the devices; rows go to the one that updates.
      target: share that each action should have, by name; empty for none.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        rows: Mapping[str, Rows],
        names: Sequence[str],
        placement: Placement,
        target: Mapping[str, float],
    ):
        self._rows, self._names = dict(rows), tuple(names)
        self._placement, self._target = placement, target
        self._assess = tf.function(algorithm.assess, autograph=False)

    def __call__(
        self, seed: int, stop: Callable[[], bool] = lambda: False, step: int = 0
    ) -> Report | None:
        """Return the report of the newest weights; None if ``stop`` returned True."""
        del seed, step
        metrics: Metrics = {}
        last = None
        for tag, rows in self._rows.items():
            found = self._assessed(rows.columns, stop)
            if found is None:
                return None
            log_density = np.zeros(0)
            if not self._names:
                rows, found, log_density = row_metrics.of_box(rows, found)
            metrics |= row_metrics.td_loss(tag, rows, found, self._names)
            last = rows, found, log_density
        assert last is not None  # there are rows
        rows, found, log_density = last
        metrics |= row_metrics.values(rows, found, self._names)
        metrics |= row_metrics.mc_loss(rows, found)
        if self._names:
            metrics |= row_metrics.actions(rows, found, self._names, self._target)
            metrics |= row_metrics.gain(rows, found)
        elif log_density.size:
            metrics["actions/log_density"] = float(np.mean(log_density, dtype=float))
        if KEPT not in self._rows:
            return Report(metrics, math.nan)
        if found.q.size:
            return Report(metrics, _score(metrics))
        # Without values, what imitates the logged actions best is better.
        if self._names:
            score = row_metrics.probability_of_logged(rows, found)
            return Report(metrics, score, "mean probability of logged actions")
        score = metrics["actions/log_density"]
        return Report(metrics, score, "mean log density of logged actions")

    def _assessed(
        self, columns: Columns, stop: Callable[[], bool]
    ) -> Assessment | BoxAssessment | None:
        """Return the assessment of rows as arrays; None if ``stop`` returned True."""
        parts = []
        for first in range(0, len(columns["reward"]), ROWS):
            if stop():
                return None
            parts.append(self._part({k: x[first:][:ROWS] for k, x in columns.items()}))
        kind = Assessment if self._names else BoxAssessment
        return kind(*(np.concatenate(x) for x in zip(*parts, strict=True)))

    def _part(self, columns: Columns) -> list[np.ndarray]:
        size = len(columns["reward"])
        missing = ROWS - size  # one shape, so that one program is traced
        padded = {
            k: np.concatenate([x, x[:1].repeat(missing, 0)]) for k, x in columns.items()
        }
        with self._placement.updating():
            tensors = {k: tf.convert_to_tensor(x) for k, x in padded.items()}
            found = self._assess(table.trajectory(tensors))
        return [np.asarray(x)[:size] for x in found]


def _score(metrics: Metrics) -> float:
    """Return what is better in a checkpoint of an algorithm with values.

    It is the gain minus its standard error; NaN if no probability was logged, or for
    Box actions. It judges decisions and not values, which may be too low (CQL) or those
    of another policy than the logged one (max) although the decisions are good. So TD
    errors, and differences between values and returns, choose nothing: both are often
    smallest before anything is learned.
    """
    parts = "actions/gain", "actions/gain_error"
    gain, error = (metrics.get(name, math.nan) for name in parts)
    return gain - error
