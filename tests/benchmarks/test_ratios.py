import numpy as np
import pytest

from benchmarks.measure import ratios


def test_ratios_are_computed_for_each_pair():
    assert ratios.of_pairs([2, 30, 400], [1, 10, 100]).median == 3


def test_the_interval_contains_95_percent_of_resampled_medians():
    # Medians of three draws from {1, 2, 3}: P(1) = P(3) = 7/27, far above 2.5 %.
    assert ratios.median([1, 2, 3]) == (2, 1, 3)
    # For 101 evenly spaced values the binomial distribution gives about 40 and 60.
    interval = ratios.median(np.arange(101))
    assert interval.median == 50
    assert (interval.low, interval.high) == pytest.approx((40, 60), abs=2)


def test_a_mean_has_students_interval():
    # 1 to 5 have the std sqrt(2.5), and t = 2.776 with four degrees of freedom.
    mean = ratios.mean([1, 2, 3, 4, 5])
    assert mean.mean == 3
    assert mean.high - 3 == pytest.approx(2.776 * (2.5 / 5) ** 0.5)
    assert 3 - mean.low == pytest.approx(mean.high - 3)
