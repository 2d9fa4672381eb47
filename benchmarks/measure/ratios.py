"""Ratios of pairs, with intervals of medians and means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_RESAMPLES = 10_000
# 97.5 % quantiles of Student's t by degrees of freedom, from 1.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)


class Interval(NamedTuple):
    """A median and the bounds of its 95 % interval."""

    median: float
    low: float
    high: float


class Mean(NamedTuple):
    """A mean and the bounds of its 95 % interval; None for a single value."""

    mean: float
    low: float | None
    high: float | None


def of_pairs(subject: Sequence[float], rival: Sequence[float]) -> Interval:
    """Return the median of ``subject / rival`` over figures of the same rounds."""
    return median([x / y for x, y in zip(subject, rival, strict=True)])


def median(values: Sequence[float] | np.ndarray) -> Interval:
    """Return the median and a bootstrap interval with the same draws in every call."""
    values = np.asarray(values, np.float64)
    random = np.random.default_rng(0)
    draws = random.choice(values, (_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return Interval(float(np.median(values)), float(low), float(high))


def mean(values: Sequence[float]) -> Mean:
    """Return the mean and Student's t interval, which suits few values."""
    center, count = float(np.mean(values)), len(values)
    if count == 1:
        return Mean(center, None, None)
    quantile = _STUDENT[min(count - 1, len(_STUDENT)) - 1]
    reach = quantile * float(np.std(values, ddof=1)) / count**0.5
    return Mean(center, center - reach, center + reach)


def overlap(one: Mean, other: Mean) -> bool | None:
    """Return whether the intervals overlap; None without intervals."""
    if one.low is None or other.low is None:
        return None
    return one.low <= other.high and other.low <= one.high
