"""Ratios of pairs: in which order pairs are made, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

Name = TypeVar("Name")
_RESAMPLES = 10_000


class Interval(NamedTuple):
    """A median and the bounds of its 95 % interval."""

    median: float
    low: float
    high: float


def rounds(contenders: Sequence[Name], count: int) -> list[list[Name]]:
    """A B, B A, A B, ...: a drift of the machine's speed favours nobody.

    Args:
      contenders: that play once in each round.
      count: rounds; each gives one pair of any two contenders.
    """
    forward, backward = list(contenders), list(contenders)[::-1]
    return [forward if i % 2 == 0 else backward for i in range(count)]


def of_pairs(subject: Sequence[float], rival: Sequence[float]) -> Interval:
    """The median of ``subject / rival``, pair by pair.

    Args:
      subject, rival: figures of the same rounds, in their order.
    """
    if len(subject) != len(rival):
        raise ValueError(f"{len(subject)} figures against {len(rival)}: no pairs")
    return median(np.asarray(subject) / np.asarray(rival))


def median(values: Sequence[float] | np.ndarray) -> Interval:
    """With a percentile bootstrap, whose draws are the same in every call.

    Args:
      values: at least one.
    """
    values = np.asarray(values, np.float64)
    random = np.random.default_rng(0)
    draws = random.choice(values, (_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return Interval(float(np.median(values)), float(low), float(high))
