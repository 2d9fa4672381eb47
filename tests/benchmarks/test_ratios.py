"""Ratios, their intervals, and bounds of times that are not known exactly."""

import numpy as np
import pytest

from benchmarks.measure import ratios, reaching
from benchmarks.work.thresholds import OURS, PEER


def test_ratios_are_computed_for_each_pair():
    assert ratios.of_pairs([2, 30, 400], [1, 10, 100]).median == 3


def test_the_interval_contains_95_percent_of_resampled_medians():
    # Medians of three draws from {1, 2, 3}: P(1) = P(3) = 7/27, far above 2.5 %.
    assert ratios.median([1, 2, 3]) == (2, 1, 3)
    # For 101 evenly spaced values the binomial distribution gives about 40 and 60.
    found = ratios.median(np.arange(101))
    assert found.median == 50
    assert (found.low, found.high) == pytest.approx((40, 60), abs=2)


def test_a_mean_has_students_interval():
    # 1 to 5 have the std sqrt(2.5), and t = 2.776 with four degrees of freedom.
    found = ratios.mean([1, 2, 3, 4, 5])
    assert found.mean == 3
    assert found.high - 3 == pytest.approx(2.776 * (2.5 / 5) ** 0.5)
    assert 3 - found.low == pytest.approx(found.high - 3)


@pytest.mark.parametrize(
    ("seconds", "reached", "median"),
    [
        ([1, 2, 9], [True, True, False], (2, True)),
        ([1, 9, 9], [True, False, False], (9, False)),
        ([1, 9], [True, False], (5, False)),
        ([9, 9], [False, False], (9, False)),
        ([1, 5, 6], [False, True, True], (5, False)),
    ],
)
def test_a_median_is_exact_if_unfinished_runs_cannot_change_it(
    seconds, reached, median
):
    assert reaching.median(seconds, reached) == median


def test_the_result_is_the_ratio_of_medians_not_the_median_of_ratios():
    always = [True] * 3
    found = reaching.sooner([1, 2, 4], always, [8, 2, 6], always)
    assert (found.ratio.median, found.bound) == (3, "")


@pytest.mark.parametrize(
    ("ours", "theirs", "bound"),
    [(True, False, "at least"), (False, True, "at most"), (False, False, "unknown")],
)
def test_a_side_that_did_not_reach_the_threshold_bounds_the_ratio(ours, theirs, bound):
    assert reaching.sooner([1.0], [ours], [2.0], [theirs]).bound == bound


def test_rounds_without_both_sides_are_left_out():
    found = [
        {"contender": name, "round": number, "seconds": seconds, "reached": True}
        for name, times in ((OURS, (2, 2, 100)), (PEER, (8, 8)))
        for number, seconds in enumerate(times, 1)
    ]
    assert reaching.of_lines(found, OURS, PEER).ratio.median == 4
    assert reaching.of_lines(found[:1], OURS, PEER) is None
