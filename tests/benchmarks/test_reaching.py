import hypothesis
import hypothesis.strategies as st
import pytest

from benchmarks.measure import reaching
from benchmarks.work.thresholds import OURS, PEER


def lines(ours, theirs):
    """Return rounds of ``(seconds, reached)`` pairs as lines of a results file."""
    return [
        {"contender": name, "round": number, "seconds": seconds, "reached": reached}
        for name, rounds in ((OURS, ours), (PEER, theirs))
        for number, (seconds, reached) in enumerate(rounds, 1)
    ]


def test_a_median_is_exact_if_unfinished_runs_cannot_change_it():
    assert reaching.median([1, 2, 9], [True, True, False]) == (2, True)


def test_a_median_is_a_lower_bound_if_unfinished_runs_may_change_it():
    assert reaching.median([1, 9, 9], [True, False, False]) == (9, False)
    assert reaching.median([1, 9], [True, False]) == (5, False)
    assert reaching.median([9, 9], [False, False]) == (9, False)
    assert reaching.median([1, 5, 6], [False, True, True]).exact is False


def test_the_result_is_the_ratio_of_medians_not_the_median_of_ratios():
    always = [True] * 3
    found = reaching.sooner([1, 2, 4], always, [8, 2, 6], always)
    assert found.ratio.median == 3
    assert found.bound == ""


@pytest.mark.parametrize(
    ("ours", "theirs", "bound"),
    [(True, False, "at least"), (False, True, "at most"), (False, False, "unknown")],
)
def test_a_side_that_did_not_reach_the_threshold_bounds_the_ratio(ours, theirs, bound):
    assert reaching.sooner([1.0], [ours], [2.0], [theirs]).bound == bound


def test_rounds_without_both_sides_are_left_out():
    found = lines([(2, True), (2, True), (100, True)], [(8, True), (8, True)])
    assert reaching.of_lines(found, OURS, PEER).ratio.median == 4
    assert reaching.of_lines(found[:1], OURS, PEER) is None


@hypothesis.given(st.lists(st.tuples(st.floats(1, 1e4), st.booleans()), min_size=1))
def test_more_time_for_unfinished_runs_keeps_an_exact_median(runs):
    seconds, reached = zip(*runs, strict=True)
    found = reaching.median(seconds, reached)
    longer = [x if r else x + 1e5 for x, r in runs]
    again = reaching.median(longer, [True] * len(runs)).seconds
    assert again == found.seconds if found.exact else again >= found.seconds
