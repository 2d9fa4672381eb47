"""Metrics, each with the rule that merges its values.

A metric of one update or one collect is one of these:

* a scalar: the log has its mean over updates or collects;
* a vector, f32 ``[n]``: the log has a histogram of the newest one;
* ``Mean``, ``Sum``, ``Min``, ``Max`` or ``Median``, see there.

The functions ``start``, ``merge`` and ``finish`` work on tensors, in a program.
``Interval`` works on numbers, between programs. ``Limit`` is for alarms.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

NEWEST = 128  # values of a Median
UPDATES = "grad/updates"  # number of optimizer steps, a mean over rounds


class Mean(NamedTuple):
    """Mean of values with different weights, such as that of the ended episodes."""

    sum: Any  # sum of the values
    # Their number, or the sum of their weights. The log has no value if it is 0.
    count: Any


class Sum(NamedTuple):
    """Sum since the last line of the log."""

    value: Any


class Min(NamedTuple):
    """Smallest value since the last line; infinity if there is none."""

    value: Any


class Max(NamedTuple):
    """Largest value since the last line; minus infinity if there is none."""

    value: Any


class Median(NamedTuple):
    """Median of the newest ``NEWEST`` values since the last line."""

    values: Any  # f32 ``[n]``, the newest first, padded with NaN at the end


Metric = Any
"""A scalar, a vector, or a rule such as ``Mean`` with its values."""
Metrics = dict[str, Metric]
"""Metrics by their log names: scalars, histograms, or rules such as ``Mean``."""
RULES = Mean, Sum, Min, Max, Median
_JOIN = {Mean: tf.add, Sum: tf.add, Min: tf.minimum, Max: tf.maximum}
_EMPTY = {Min: np.inf, Max: -np.inf, Median: np.nan}


class Result(NamedTuple):
    """Result of a program's call, as tensors."""

    rounds: tf.Tensor  # int32 ``[]``, number of rounds
    updates: tf.Tensor  # int32 ``[]``, number of updates
    learned: Metrics  # merged metrics of the updates
    collected: Metrics  # merged metrics of what was collected

    def to_host(self) -> tuple[dict[str, Any], int]:
        """Return all metrics as NumPy values, and the number of rounds.

        Metrics of updates are left out if there was no update, except their number.
        """
        learned = self.learned
        if not self.updates.numpy():
            learned = {k: x for k, x in learned.items() if k == UPDATES}
        return to_host(learned | self.collected), int(self.rounds.numpy())


def to_host(metrics: Mapping[str, Metric]) -> Metrics:
    """Return metrics as NumPy values.

    ``tf.nest`` is not used, because it keeps a little memory for each named tuple.
    """

    def converted(metric):
        if isinstance(metric, RULES):
            return type(metric)(*(x.numpy() for x in metric))
        return metric.numpy()

    return {name: converted(metric) for name, metric in metrics.items()}


def start(like: Mapping[str, Metric], wide: bool = False) -> Metrics:
    """Return the totals of ``merge`` before the first metrics.

    Args:
      like: metrics, or tensors like them.
      wide: sum in float64 and int64, so that a sum does not depend on the order.
    """

    @functools.cache  # a single tensor of each kind, as programs have many metrics
    def filled(shape, dtype, value):
        # Computed, because a constant would get another name in every process.
        return tf.fill(shape, tf.constant(value, dtype))

    def first(metric):
        rule = type(metric) if isinstance(metric, RULES) else None
        value = _EMPTY.get(rule, 0)

        def zero(x):
            shape, dtype = tuple(x.shape), x.dtype
            if rule is Median:
                shape = (NEWEST,)
            elif wide and not shape and rule not in (Min, Max):
                dtype = tf.float64 if dtype.is_floating else tf.int64
            return filled(shape, dtype, value)

        return tf.nest.map_structure(zero, metric)

    return {name: first(metric) for name, metric in like.items()}


def merge(totals: Metrics, new: Mapping[str, Metric], some: Any = True) -> Metrics:
    """Join new metrics to totals.

    Scalars are added, see ``finish``.

    Args:
      totals: from ``start`` or ``merge``.
      new: metrics with the same names and rules.
      some: bool ``[]``; where false, ``new`` are totals of nothing, so vectors stay.
    """

    def joined(total, metric):
        if isinstance(metric, Median):
            return Median(_append(total.values, metric.values))
        if isinstance(metric, RULES):
            join = _JOIN[type(metric)]
            return tf.nest.map_structure(
                lambda old, x: join(old, tf.cast(x, old.dtype)), total, metric
            )
        if metric.shape.rank:
            return metric if some is True else tf.where(some, metric, total)
        return total + tf.cast(metric, total.dtype)

    return {name: joined(totals[name], metric) for name, metric in new.items()}


def finish(totals: Metrics, count: tf.Tensor) -> Metrics:
    """Return totals in which each summed scalar is a ``Mean``.

    Args:
      totals: from ``merge``.
      count: ``[]``, how many scalars were added.
    """

    def finished(metric):
        if isinstance(metric, RULES) or metric.shape.rank:
            return metric
        return Mean(metric, count)

    return {name: finished(metric) for name, metric in totals.items()}


def _append(total: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """Put the numbers at the start of ``new`` before those of ``total``: same size."""
    count = tf.reduce_sum(tf.cast(~tf.math.is_nan(new), tf.int32))
    place = tf.range(total.shape[0])
    both = tf.concat([new, total], 0)
    return tf.gather(both, tf.where(place < count, place, new.shape[0] + place - count))


class Interval:
    """Metrics since the last line of the log.

    Every episode has the same weight, and so has every update. Lines do not depend on
    how rounds are grouped into calls.
    """

    def __init__(self):
        self._totals: dict[str, Any] = {}

    @property
    def totals(self) -> Metrics:
        """Merged metrics, in which each scalar is a ``Mean``."""
        return dict(self._totals)

    def add(self, metrics: Mapping[str, Metric]) -> None:
        """Add metrics of a program's call, as numbers or NumPy arrays."""
        for name, metric in metrics.items():
            if not isinstance(metric, RULES):
                metric = np.asarray(metric)
                metric = metric if metric.ndim else Mean(float(metric), 1)
            self._totals[name] = _joined(self._totals.get(name), metric)

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the log, and the newest vectors.

        Metrics without a value, such as the mean return if no episode ended, are left
        out.
        """
        values = {name: _value(metric) for name, metric in self._totals.items()}
        return {name: x for name, x in values.items() if x is not None}


def _joined(total: Metric | None, new: Metric) -> Metric:
    """Join numbers by their rule; ``total`` is None before the first ones."""
    if isinstance(new, Median):
        before = () if total is None else total.values
        values = np.concatenate([new.values, before])
        return Median(values[~np.isnan(values)][:NEWEST])
    if not isinstance(new, RULES):
        return new
    new = type(new)(*(np.asarray(x).item() for x in new))
    if total is None:
        return new
    if isinstance(new, (Min, Max)):
        return (min if isinstance(new, Min) else max)(total, new)
    return type(new)(*(a + b for a, b in zip(total, new, strict=True)))


def _value(metric: Metric) -> Any:
    """Return the number of the log; None if there is none."""
    if isinstance(metric, Mean):
        return _rounded(metric.sum / metric.count) if metric.count else None
    if isinstance(metric, Median):
        return float(np.median(metric.values)) if len(metric.values) else None
    if isinstance(metric, (Min, Max)):
        return None if math.isinf(metric.value) else metric.value
    return metric.value if isinstance(metric, Sum) else metric


def _rounded(mean: float) -> float:
    """Round to float32, because the last bits of a sum depend on the order."""
    return float(str(np.float32(mean)))


class Limit(NamedTuple):
    """Limit of a metric; an alarm is raised when the metric stays beyond it.

    NaN is beyond every limit.
    """

    name: str  # one word for the alarm
    metric: str  # log name; lines of metrics without it are ignored
    # The observation, why it matters and what to try. Metrics of the line are filled in
    # by name, as in "a KL of {policy/approx_kl:.3g} nats".
    text: str
    # The limits; values equal to them are healthy
    above: float = math.inf
    below: float = -math.inf
    lines: int = 1  # number of consecutive lines beyond the limit before the alarm
    part: float = 0.0  # fraction of the run that these lines have to span
    at_once: float = math.inf  # a value above it raises the alarm at its first line
    # Function of a line beyond the limit; False ignores that line
    when: Callable[[Mapping[str, float]], bool] = lambda line: True
