"""Reports on logged rows: errors of values, and actions.

They take the place of episodes where there is no environment. Metrics are computed from
arrays of N rows and A actions. Their names are those of Horizon's TensorBoard (Gauci et
al. 2018, arXiv:1811.00260). Scalars are floats, histograms are vectors. A metric that
no row determines is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch.devices.placement import Placement
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.logged import table
from tfagents_batch.offline.table_reader import Columns
from tfagents_batch.tracing import anew
from tfagents_batch.types import Assessment, BoxAssessment

ROWS = 4096  # of a call
Metrics = dict[str, float | np.ndarray]
TRAINED, KEPT = "td_loss", "eval_td_loss"  # tags of rows for training, and evaluation


class ReportedRows(NamedTuple):
    """Logged rows with Discrete actions, and what is known of each."""

    columns: Columns  # what a program reads, see table.used
    propensity: np.ndarray  # f32 [N], of the logged action; NaN if it was not logged
    returns: np.ndarray  # f64 [N], NaN where unknown, see offline.table_reader.returns
    # i64 [N], 0 where unknown, see offline.table_reader.steps_to_end
    steps_to_end: np.ndarray


class RowsReport(NamedTuple):
    """Result of a report."""

    values: Metrics  # metrics by name
    score: float  # what is better in a checkpoint, see _score; NaN if it is unknown
    measure: str = "score (actions/gain - actions/gain_error)"  # what the score is
    mean_return = math.nan  # there are no episodes

    @property
    def score_error(self) -> float:
        """Standard error of the score."""
        return float(self.values.get("actions/gain_error", 0.0))

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
        rows: Mapping[str, ReportedRows],
        names: Sequence[str],
        placement: Placement,
        target: Mapping[str, float],
    ):
        self._rows, self._names = dict(rows), tuple(names)
        self._placement, self._target = placement, target
        self._assess = tf.function(anew(algorithm.assess), autograph=False)

    def __call__(
        self, seed: int, stop: Callable[[], bool] = lambda: False, step: int = 0
    ) -> RowsReport | None:
        """Return the report of the newest weights; None if ``stop`` returned True."""
        del seed, step
        metrics: Metrics = {}
        last = None
        for tag, rows in self._rows.items():
            assessment = self._assessed(rows.columns, stop)
            if assessment is None:
                return None
            log_density = np.zeros(0)
            if not self._names:
                rows, assessment, log_density = of_box(rows, assessment)
            metrics |= td_loss(tag, rows, assessment, self._names)
            last = rows, assessment, log_density
        assert last is not None  # there are rows
        rows, assessment, log_density = last
        metrics |= values(rows, assessment, self._names)
        metrics |= mc_loss(rows, assessment)
        if self._names:
            metrics |= actions(rows, assessment, self._names, self._target)
            metrics |= gain(rows, assessment)
        elif log_density.size:
            metrics["actions/log_density"] = float(np.mean(log_density, dtype=float))
        if KEPT not in self._rows:
            return RowsReport(metrics, math.nan)
        if assessment.q.size:
            return RowsReport(metrics, _score(metrics))
        # Without values, what imitates the logged actions best is better.
        if self._names:
            score = _mean(_of_logged(assessment.probability, rows))
            return RowsReport(metrics, score, "mean probability of logged actions")
        score = metrics["actions/log_density"]
        return RowsReport(metrics, score, "mean log density of logged actions")

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
            assessment = self._assess(table.trajectory(tensors))
        return [np.asarray(x)[:size] for x in assessment]


def _score(metrics: Metrics) -> float:
    """Return what is better in a checkpoint of an algorithm with values.

    It is the gain minus its standard error; NaN if no propensity was logged, or for
    Box actions. It judges decisions and not values, which may be too low (CQL) or those
    of another policy than the logged one (max) although the decisions are good. So TD
    errors, and differences between values and returns, choose nothing: both are often
    smallest before anything is learned.
    """
    parts = "actions/gain", "actions/gain_error"
    gain, error = (metrics.get(name, math.nan) for name in parts)
    return gain - error


def of_box(
    rows: ReportedRows, assessment: BoxAssessment
) -> tuple[ReportedRows, Assessment, np.ndarray]:
    """Return rows with Box actions as rows of one action, which has no name.

    Also their assessment as one of it, and the log densities of logged actions. There
    are no propensities.
    """
    number = np.zeros(len(rows.returns), np.int64)
    unknown = np.full(len(number), np.nan, np.float32)
    columns = {**rows.columns, "action": number}
    one = rows._replace(columns=columns, propensity=unknown)
    q = assessment.q[:, np.newaxis] if assessment.q.size else assessment.q
    return one, Assessment(q, assessment.target, np.zeros(0)), assessment.log_density


def td_loss(
    tag: str, rows: ReportedRows, assessment: Assessment, names: Sequence[str]
) -> Metrics:
    """Return squared TD errors: all, and their means by action and by time to the end.

    Args:
      tag: first part of the names of metrics.
      rows: the rows.
      assessment: assessment of the rows, as arrays; empty arrays instead of ``()``.
      names: names of the actions.
    """
    known = ~np.isnan(assessment.target)
    if not known.any():
        return {}
    action, steps = rows.columns["action"][known], rows.steps_to_end[known]
    loss = (assessment.target - _of_logged(assessment.q, rows))[known] ** 2
    bucket = np.frexp(steps)[1] - 1  # floor(log2(steps)), and -1 for 0
    buckets = [_bucket(i) for i in range(bucket.max() + 1)]
    parts = (
        _means(f"{tag}/action", names, loss, _one_hot(action, len(names))),
        _means(f"{tag}/steps_to_end", buckets, loss, _one_hot(bucket, len(buckets))),
    )
    return {tag: loss, f"{tag}/mean": _mean(loss)} | parts[0] | parts[1]


def mc_loss(rows: ReportedRows, assessment: Assessment) -> Metrics:
    """Return differences between values of logged actions and logged returns."""
    known = np.isfinite(rows.returns)
    if not assessment.q.size or not known.any():
        return {}
    error = (_of_logged(assessment.q, rows) - rows.returns)[known]
    return {
        "mc_loss": np.abs(error),
        "mc_loss/mean": _mean(np.abs(error)),
        "mc_loss/rmse": _mean(error**2) ** 0.5,
        "mc_loss/bias": _mean(error),
    }


def values(rows: ReportedRows, assessment: Assessment, names: Sequence[str]) -> Metrics:
    """Return logged returns, and values of the actions that were possible.

    Without names of actions, as of a Box, there are only those of logged actions.
    """
    if not assessment.q.size:
        return {}
    possible = rows.columns.get("mask", np.ones_like(assessment.q, bool))
    known = rows.returns[np.isfinite(rows.returns)]
    metrics: Metrics = {"value/logged": _mean(known)} if len(known) else {}
    metrics["value/model_logged_action"] = _mean(_of_logged(assessment.q, rows))
    if names:
        metrics |= _means("value/model", names, assessment.q, possible)
        metrics |= _means("value_std/model", names, assessment.q, possible, np.std)
    return metrics


def actions(
    rows: ReportedRows,
    assessment: Assessment,
    names: Sequence[str],
    target: Mapping[str, float] | None = None,
) -> Metrics:
    """Return how often actions were and would be taken, and their logged rewards.

    Arguments as of ``td_loss``; ``target`` is the share that each action should have.
    """
    logged = _one_hot(rows.columns["action"], len(names))
    greedy = _one_hot(assessment.probability.argmax(-1), len(names))
    every = np.ones_like(logged)
    known = logged & np.isfinite(rows.propensity)[:, np.newaxis]
    metrics = (
        _means("actions/logged", names, logged, every)
        | _means("actions/model", names, greedy, every)
        | _means("propensities/logged", names, rows.propensity, known)
        | _means("propensities/model", names, assessment.probability, every)
        | _means("reward/logged", names, rows.columns["reward"], logged)
    )
    if target:
        wanted = np.array([target.get(name, 0.0) for name in names])
        metrics["actions/target_mse"] = _mean((greedy.mean(0) - wanted) ** 2)
    return metrics


def gain(rows: ReportedRows, assessment: Assessment) -> Metrics:
    """Return how much larger returns are if the learned policy decides once.

    It is sum_i w_i G_i / sum_i w_i - mean G over rows with known return G and
    propensity p, with w = pi(a | s) / p: the mean return from logged states on if the
    learned policy takes the first action there and the logging policy all others
    (Kakade and Langford 2002). Values are not needed for it. ``gain_error`` is the
    standard error of the first term.
    """
    known = np.isfinite(rows.returns) & np.isfinite(rows.propensity)
    returns, propensity = rows.returns[known], rows.propensity[known]
    probability = _of_logged(assessment.probability, rows)[known]
    weight = probability.astype(np.float64) / propensity
    if not weight.any():
        return {}
    mean = np.average(returns, weights=weight)
    error = np.sqrt(np.sum((weight * (returns - mean)) ** 2)) / weight.sum()
    return {
        "actions/gain": float(mean - returns.mean()),
        "actions/gain_error": float(error),
    }


def _means(
    tag: str,
    names: Sequence[str],
    x: np.ndarray,
    where: np.ndarray,
    statistic: Callable[..., np.ndarray] = np.mean,
) -> Metrics:
    """Return the mean of each column that has entries, or another statistic.

    ``x`` is ``[N, A]``, or ``[N]`` for equal columns; ``where``, bool ``[N, A]``, says
    which entries count. Names of metrics are ``<tag>/<name of the column>``.
    """
    x = np.broadcast_to(x if x.ndim == 2 else x[:, np.newaxis], where.shape)
    return {
        f"{tag}/{names[i]}": float(statistic(x[where[:, i], i], dtype=np.float64))
        for i in np.flatnonzero(where.any(0))
    }


def _mean(x: np.ndarray) -> float:
    return float(np.mean(x, dtype=np.float64))


def _of_logged(x: np.ndarray, rows: ReportedRows) -> np.ndarray:
    """Return the entries ``[N]`` of the logged actions in ``x [N, A]``."""
    action = rows.columns["action"][:, np.newaxis]
    return np.take_along_axis(x, action, axis=1)[:, 0]


def _one_hot(index: np.ndarray, size: int) -> np.ndarray:
    return index[:, np.newaxis] == np.arange(size)


def _bucket(i: int) -> str:
    """Return the name of the bucket from 2^i to 2^(i+1) - 1."""
    return f"{2**i}-{2 ** (i + 1) - 1}" if i else "1"
