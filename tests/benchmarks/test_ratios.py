import numpy as np
import pytest

from benchmarks.measure import ratios


def test_every_second_round_has_the_reverse_order():
    assert ratios.rounds("AB", 3) == [["A", "B"], ["B", "A"], ["A", "B"]]


def test_ratios_are_computed_for_each_pair():
    assert ratios.of_pairs([2, 30, 400], [1, 10, 100]).median == 3


def test_the_interval_contains_95_percent_of_resampled_medians():
    # Medians of three draws from {1, 2, 3}: P(1) = P(3) = 7/27, far above 2.5 %.
    assert ratios.median([1, 2, 3]) == (2, 1, 3)
    # For 101 evenly spaced values the binomial distribution gives about 40 and 60.
    found = ratios.median(np.arange(101))
    assert found.median == 50
    assert found.low == pytest.approx(40, abs=2)
    assert found.high == pytest.approx(60, abs=2)


def test_a_mean_has_students_interval():
    # 1 to 5 have the std sqrt(2.5), and t = 2.776 with four degrees of freedom.
    found = ratios.mean([1, 2, 3, 4, 5])
    assert found.mean == 3
    assert found.high - 3 == pytest.approx(2.776 * (2.5 / 5) ** 0.5)
    assert 3 - found.low == pytest.approx(found.high - 3)


@pytest.mark.parametrize("shift, expected", [(0, True), (2, True), (4, False)])
def test_intervals_overlap_if_they_share_a_value(shift, expected):
    one, other = ratios.Mean(1, 0, 2), ratios.Mean(1 + shift, shift, 2 + shift)
    assert ratios.overlap(one, other) is expected
    assert ratios.overlap(other, one) is expected
