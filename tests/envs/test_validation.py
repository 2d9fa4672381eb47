from __future__ import annotations

import gymnasium.spaces as gs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch import spaces
from tfagents_batch.envs import validation
from tfagents_batch.envs.failures import Defect

SPACES = {
    "box": gs.Box(-1, 1, (3,), np.float32),
    "wide": gs.Box(-np.inf, np.inf, (2, 2), np.float64),
    "image": gs.Box(0, 255, (4, 4, 3), np.uint8),
    "scalar": gs.Box(0, 1, (), np.float32),
    "long": gs.Box(-(2**40), 2**40, (2,), np.int64),
    "discrete": gs.Discrete(3, start=-1),
    "multi": gs.MultiDiscrete([3, 2], start=[1, 0]),
    "binary": gs.MultiBinary(4),
    "dict": gs.Dict({"b": gs.Discrete(2), "a": gs.Box(0, 1, (2,), np.float32)}),
    "tuple": gs.Tuple([gs.MultiBinary(2), gs.Dict({"x": gs.Discrete(5)})]),
}


def writer(space, rows=2):
    arrays = [np.zeros((rows, *x.shape), x.dtype) for x in spaces.leaves(space)]
    return validation.ObservationWriter(space, arrays), arrays


@pytest.mark.parametrize("name", [name for name in SPACES if name != "long"])
@settings(max_examples=20)
@given(seed=st.integers(0, 1000))
def test_samples_of_a_space_arrive_unchanged(name, seed):
    space = SPACES[name]
    space.seed(seed)
    value = space.sample()
    write, arrays = writer(space)
    write.write(1, value)
    assert write.inspect(value) == []
    for array, leaf, got in zip(
        arrays, spaces.leaves(space), spaces.flatten(space, value), strict=True
    ):
        np.testing.assert_array_equal(array[1], np.asarray(got).astype(leaf.dtype))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("box", np.zeros(3), "dtype float64; the space says float32"),
        ("box", np.zeros(4, np.float32), r"shape \[4\]; the space says \[3\]"),
        ("box", None, "observation is None; expected an array"),
        ("box", [0.0, 0.0, 0.0], "is a list"),
        ("image", np.zeros((4, 4, 3), np.int64), "dtype int64; the space says uint8"),
        ("wide", np.zeros((2, 2), np.int64), "dtype int64; the space says float64"),
        ("scalar", 0.5, "is a float"),
        ("discrete", 2, "observation is 2; .* has -1 to 1"),
        ("discrete", 1.0, "is a float; expected an int"),
        ("long", np.array([2**35, 0]), "do not fit int32"),
        ("dict", {"a": np.zeros(2, np.float32)}, "not nested as its space"),
        ("dict", None, "not nested as its space"),
        ("tuple", (np.zeros(2, np.int8),), "not nested as its space"),
    ],
)
def test_defects_are_refused_at_every_step(name, value, text):
    write, _ = writer(SPACES[name])
    with pytest.raises(Defect, match=text):
        write.write(0, value)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("multi", np.array([0, 0]), "not in MultiDiscrete"),
        ("binary", np.full(4, 2, np.int8), "not in MultiBinary"),
        ("dict", {"a": np.zeros(2, np.float32), "b": 1, "c": 2}, r"keys \['c'\]"),
    ],
)
def test_rarer_defects_are_refused_by_the_full_check(name, value, text):
    write, _ = writer(SPACES[name])
    with pytest.raises(Defect, match=text):
        write.inspect(value)


def test_only_the_declared_narrowing_is_done():
    write, (array,) = writer(SPACES["wide"])
    write.write(0, np.full((2, 2), 0.1))
    assert array.dtype == np.float32
    assert array[0, 0, 0] == np.float32(0.1)
    write.write(0, np.full((2, 2), 0.2, np.float32))  # no loss, so no harm
    assert array[0, 0, 0] == np.float32(0.2)


@pytest.mark.parametrize("value", [np.int64(1), np.uint8(1), 1, np.array(1)])
def test_discrete_observations_may_be_any_integer(value):
    write, (array,) = writer(SPACES["discrete"])
    write.write(0, value)
    assert array[0] == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_found_in_any_leaf(bad):
    space = gs.Dict({"a": SPACES["box"], "b": SPACES["wide"]})
    write, arrays = writer(space, rows=4)
    arrays[0][1, 2] = bad
    arrays[1][3, 0, 1] = bad
    assert write.not_finite() == {1: "observation['a']", 3: "observation['b']"}


def test_values_outside_a_box_are_named_and_no_defect():
    space = gs.Dict({"a": SPACES["box"], "b": SPACES["wide"]})
    write, _ = writer(space)
    value = {"a": np.array([0, 0, 1.5], np.float32), "b": np.full((2, 2), 1e9)}
    assert write.inspect(value) == ["observation['a']"]


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.int64(1), np.float64(1)])
def test_rewards_may_be_any_number(value):
    assert validation.reward(value) == 1.0


@pytest.mark.parametrize("value", [None, "1", np.array([1.0]), np.array(1.0), [1.0]])
def test_rewards_that_are_no_numbers_are_refused(value):
    with pytest.raises(Defect, match="reward is"):
        validation.reward(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e39])
def test_rewards_that_float32_cannot_hold_are_refused(value):
    with pytest.raises(Defect, match="finite float32"):
        validation.finite_reward(value)


@pytest.mark.parametrize("value", [True, False, np.bool_(True)])
def test_flags_may_be_any_bool(value):
    assert validation.flag("terminated", value) is bool(value)


@pytest.mark.parametrize("value", [0, 1, None, 1.0, np.array([True])])
def test_flags_that_are_no_bools_are_refused(value):
    with pytest.raises(Defect, match="truncated is"):
        validation.flag("truncated", value)


def test_legacy_results_are_named_so():
    with pytest.raises(Defect, match="4 values, the legacy gym API"):
        validation.step_result((np.zeros(2), 1.0, False, {}))
    with pytest.raises(Defect, match="legacy gym API"):
        validation.reset_result(np.zeros(2))
