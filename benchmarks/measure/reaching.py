"""Times to a threshold; of some runs only a lower bound is known, their budget."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure.ratios import Interval

_RESAMPLES = 10_000


class Median(NamedTuple):
    """Median of times, or its lower bound if not ``exact``."""

    seconds: float
    exact: bool  # independent of runs that did not reach the threshold


class Sooner(NamedTuple):
    """Ratio of two times to a threshold.

    The bound is "" if the ratio is exact, "at least" or "at most" if one median is only
    a lower bound, and "unknown" if both are.
    """

    ratio: Interval  # of the other side's median to our own
    bound: str


def median(seconds: Sequence[float], reached: Sequence[bool]) -> Median:
    """Return the median time.

    Args:
      seconds: seconds to the threshold, or to the end of the budget.
      reached: whether they are to the threshold.
    """
    most = [x if ended else math.inf for x, ended in zip(seconds, reached, strict=True)]
    least = statistics.median(seconds)
    return Median(float(least), least == statistics.median(most))


def sooner(
    ours: Sequence[float],
    ours_reached: Sequence[bool],
    theirs: Sequence[float],
    theirs_reached: Sequence[bool],
) -> Sooner:
    """Return the ratio of medians; the interval is from resampled rounds.

    Args:
      ours, theirs: seconds of the same rounds.
      ours_reached, theirs_reached: whether they are times to the threshold.
    """
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} times against {len(theirs)}: no rounds")
    mine, other = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    draws = np.random.default_rng(0).integers(len(mine), size=(_RESAMPLES, len(mine)))
    ratios = np.median(other[draws], axis=1) / np.median(mine[draws], axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    value = Interval(float(np.median(other) / np.median(mine)), float(low), float(high))
    exact = (median(ours, ours_reached).exact, median(theirs, theirs_reached).exact)
    bounds = {
        (True, True): "",
        (True, False): "at least",
        (False, True): "at most",
        (False, False): "unknown",
    }
    return Sooner(value, bounds[exact])


def of_lines(lines: Sequence[dict[str, Any]], ours: str, theirs: str) -> Sooner | None:
    """Return the ratio over the rounds in which both ran; None without such rounds.

    Args:
      lines: lines of a results file, of one task.
      ours, theirs: names of the contenders.
    """
    found: dict[str, dict[int, dict]] = {ours: {}, theirs: {}}
    for line in lines:
        if "failed" not in line:
            found[line["contender"]][line["round"]] = line
    both = sorted({*found[ours]} & {*found[theirs]})
    if not both:
        return None
    columns = [
        [found[name][number][key] for number in both]
        for name in (ours, theirs)
        for key in ("seconds", "reached")
    ]
    return sooner(*columns)
