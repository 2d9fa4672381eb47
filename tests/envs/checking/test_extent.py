import numpy as np
import pytest

from tfagents_batch.envs.checking.extent import Extent


def extent(*values):
    found = Extent(np.shape(values[0]))
    for value in values:
        found.add(np.asarray(value))
    return found


def test_an_extent_has_the_lowest_and_highest_value_of_each_entry():
    found = extent([1, 5], [3, 2])
    np.testing.assert_array_equal(found.low, [1, 2])
    np.testing.assert_array_equal(found.spread, [2, 3])


def test_changes_that_float32_does_not_have_are_found_with_their_place():
    text = extent([0.5, 1.7e9], [0.2, 1.7e9 + 60]).unresolved()
    assert text.startswith(" at [1] is 1700000000 to 1700000060; it hardly")
    assert "128 apart" in text


@pytest.mark.parametrize(
    "values",
    [
        (1.7e9, 1.7e9),  # constant
        (1.7e9, 1.7e9 + 3e3),
        (2.0**24, 2.0**24 + 32),
        (1.0, 1.0 + 1e-12),  # a rounding error
        (1e5, 1e5 + 1e-10),
        (-1e300, 1e300),
    ],
)
def test_constants_wide_ranges_and_rounding_errors_are_no_loss(values):
    assert extent(*values).unresolved() == ""
