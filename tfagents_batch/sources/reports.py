"""Reports on logged rows that are kept from training: errors of values, and actions.

They take the place of episodes where there is no environment. Names are those of
Horizon's TensorBoard (Gauci et al. 2018, arXiv:1811.00260), each in a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch.interfaces import Algorithm, Assessment
from tfagents_batch.offline.dense import Columns
from tfagents_batch.placement import Placement
from tfagents_batch.sources import table

ROWS = 4096  # of a call


class Report(NamedTuple):
    """Result of a report.

    Attributes:
      values: metrics by name.
      score: what is better in a checkpoint: minus the root mean square of the
        differences between values of logged actions and logged returns; without
        values, the share of logged actions that the policy takes. NaN if it is unknown.
    """

    values: dict[str, float]
    score: float
    measure = "score"

    def metrics(self) -> dict[str, float]:
        """Return log metrics."""
        return self.values


class Reporter:
    """Reports on rows with Discrete actions.

    Args:
      algorithm: with ``assess``.
      columns: the rows, see ``table.used``.
      returns: their logged returns, NaN where unknown, see ``offline.dense.returns``.
      names: names of the actions.
      placement: the devices; rows go to the one that updates.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        columns: Columns,
        returns: np.ndarray,
        names: Sequence[str],
        placement: Placement,
    ):
        self._columns, self._names = columns, tuple(names)
        self._returns, self._placement = returns, placement
        self._assess = tf.function(algorithm.assess, autograph=False)

    def __call__(
        self, seed: int, stop: Callable[[], bool] = lambda: False, step: int = 0
    ) -> Report | None:
        """Return the report of the newest weights; None if ``stop`` returned True."""
        del seed, step
        parts, size = [], len(self._returns)
        for first in range(0, size, ROWS):
            if stop():
                return None
            rows = {k: x[first : first + ROWS] for k, x in self._columns.items()}
            parts.append(self._assessed(rows))
        joined = [np.concatenate(x) for x in zip(*parts, strict=True)]
        return self._report(*joined)

    def _assessed(self, rows: Columns) -> list[np.ndarray]:
        size = len(rows["reward"])
        missing = ROWS - size  # one shape, so that one program is traced
        padded = {
            k: np.concatenate([x, x[:1].repeat(missing, 0)]) for k, x in rows.items()
        }
        with self._placement.updating():
            tensors = {k: tf.convert_to_tensor(x) for k, x in padded.items()}
            found: Assessment = self._assess(table.trajectory(tensors))
        return [x.numpy()[:size] for x in found if tf.is_tensor(x)]

    def _report(self, *found: np.ndarray) -> Report:
        *values, probability = found
        action = self._columns["action"]
        known = np.arange(len(action)), action
        metrics = {}
        for i, name in enumerate(self._names):
            metrics[f"actions/logged/{name}"] = float(np.mean(action == i))
            metrics[f"actions/model/{name}"] = float(np.mean(probability[:, i]))
        score = float(np.mean(probability[known]))
        if values:
            q, target = values
            taken = q[known]
            metrics["eval/td_loss"] = float(np.mean((target - taken) ** 2))
            metrics["value/model_logged_action"] = float(np.mean(taken))
            for i, name in enumerate(self._names):
                metrics[f"value/model/{name}"] = float(np.mean(q[:, i]))
            error = (taken - self._returns)[np.isfinite(self._returns)]
            score = math.nan
            if len(error):
                # Squares, because true values are means of returns. Absolute errors
                # would prefer values that are still too small, near the median.
                score = -float(np.sqrt(np.mean(error**2)))
                metrics["eval/mc_loss"] = float(np.mean(np.abs(error)))
                metrics["eval/mc_rmse"] = -score
                metrics["eval/mc_bias"] = float(np.mean(error))
                metrics["value/logged"] = float(np.nanmean(self._returns))
        return Report(metrics, score)
