"""Horizon's samples for several rewards."""

import pytest

from tests.offline.samples.imported import ARRAYS, lines, write


@pytest.mark.parametrize("discount", ["step", "time"])
def test_arrays_are_reduced_as_the_timeline_does_it(tmp_path, discount):
    (found,), _ = write(lines(tmp_path, [ARRAYS]), tmp_path, discount=discount)
    by_time = discount == "time"
    factors = [1, 0.5**2, 0.5**5] if by_time else [1, 0.5, 0.25]
    assert found["reward"] == factors[0] + 2 * factors[1] + 4 * factors[2]
    assert found["metrics"] == {"m": 10 + 20 * factors[1]}
    assert found["next_state_features"] == {1: 4.0}
    assert found["next_action"] == "b" and found["time_diff"] == 6
    assert found["possible_next_actions"] == ["a", "b"] and found["not_terminal"]
    assert found["step"] == 3 and found["discount"] == (0.5**6 if by_time else 0.125)
