"""Rules that `check_env`, workers and batches apply to the values of environments."""

import gymnasium.spaces as gs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.envs.any_space import any_space
from tfagents_batch import spaces
from tfagents_batch.envs.shared import validation
from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.shared.observation_rules import (
    leaf_defects,
    observation_defects,
)
from tfagents_batch.envs.shared.observations import ObservationWriter

BOX = gs.Box(-1, 1, (3,), np.float32)
WIDE = gs.Box(-np.inf, np.inf, (2, 2), np.float64)
IMAGE = gs.Box(0, 255, (4, 4, 3), np.uint8)
LONG = gs.Box(-(2**40), 2**40, (2,), np.int64)
DISCRETE = gs.Discrete(3, start=-1)
MULTI = gs.MultiDiscrete([3, 2], start=[1, 0])
BINARY = gs.MultiBinary(4)
DICT = gs.Dict({"b": gs.Discrete(4), "a": BOX})
TUPLE = gs.Tuple([BOX, gs.Discrete(4)])

# Space, function that makes a valid value invalid, and the defect's kind and text.
LEAVES = {
    "shape": (BOX, lambda x: x[:-1], "shape", r"shape \[2\]; its space says \[3\]"),
    "one axis more": (BOX, lambda x: x[None], "shape", r"shape \[1, 3\]"),
    "dtype": (
        *(BOX, lambda x: x.astype(np.float64), "dtype"),
        r"dtype float64; its space says float32.*DtypeObservation\(env, np.float32\)",
    ),
    "integers": (BOX, lambda x: x.astype(np.int64), "dtype", "dtype int64"),
    "wide integers": (WIDE, lambda x: x.astype(np.int64), "dtype", "says float64"),
    "wide bytes": (IMAGE, lambda x: x.astype(np.int64), "dtype", "says uint8"),
    "NaN": (BOX, lambda x: x * np.float32(np.nan), "finite", "has NaN or infinite"),
    "infinity": (BOX, lambda x: x + np.float32(np.inf), "finite", "finite float32"),
    "no float32": (WIDE, lambda x: np.full_like(x, 1e300), "finite", "finite float32"),
    "too high": (BOX, lambda x: x + np.float32(2.5), "bounds", "outside its Box"),
    "too low": (BOX, lambda x: x - np.float32(2.5), "bounds", "expected -1.0 to 1.0"),
    "too long": (LONG, lambda x: x * 0 + 2**35, "fit", "do not fit int32"),
    "too large": (DISCRETE, lambda x: 2, "bounds", "is 2; .* has -1 to 1"),
    "before the start": (DISCRETE, lambda x: -2, "bounds", "is -2; .* has -1 to 1"),
    "float index": (DISCRETE, float, "type", "a float; expected an int: return int"),
    "MultiDiscrete": (MULTI, lambda x: x * 0, "bounds", r"is \[0, 0\]; not in MultiD"),
    "MultiBinary": (BINARY, lambda x: x * 0 + 2, "bounds", "not in MultiBinary"),
    "None": (BOX, lambda x: None, "type", r"is None; expected an array, float32 \[3\]"),
    "a list": (BOX, lambda x: x.tolist(), "type", "is a list; .* return np.asarray"),
    "a masked array": (
        *(BOX, lambda x: np.ma.masked_array(x, [True, False, False]), "type"),
        r"a masked array with masked values; .* return observation.filled\(0\)",
    ),
    "no index": (DISCRETE, lambda x: None, "type", "is None; expected an int"),
}
NESTS = {
    "a key too few": (
        *(DICT, lambda x: {"a": x["a"]}, "missing keys", "observation"),
        r"lacks keys \['b'\]; its space has \['a', 'b'\]",
    ),
    "a key too many": (
        *(DICT, lambda x: x | {"c": 1}, "extra keys", "observation"),
        r"has keys \['c'\], which its space does not have",
    ),
    "no dict": (DICT, lambda x: x["a"], "type", "observation", "expected a dict of"),
    "inside a dict": (
        *(DICT, lambda x: x | {"b": 4}, "bounds", "observation['b']"),
        "is 4; Discrete.* has 0 to 3",
    ),
    "a tuple too short": (
        *(TUPLE, lambda x: x[:1], "length", "observation"),
        "has 1 entries; its space has 2",
    ),
    "no tuple": (TUPLE, lambda x: None, "type", "observation", "expected a tuple of 2"),
    "inside a tuple": (
        *(TUPLE, lambda x: (None, x[1]), "type", "observation[0]"),
        "is None; expected an array",
    ),
}
RULES = {
    **{
        name: (space, change, kind, "observation", text)
        for name, (space, change, kind, text) in LEAVES.items()
    },
    **NESTS,
}
GOOD = [BOX, WIDE, IMAGE, DISCRETE, MULTI, BINARY, DICT, TUPLE, gs.Box(0, 1, ())]


def writer(space, rows=2):
    arrays = [np.zeros((rows, *x.shape), x.dtype) for x in spaces.leaves(space)]
    return ObservationWriter(space, arrays), arrays


def defects(space, value):
    return [*observation_defects(space, value, leaf_defects)]


def broken(name):
    """Return space, valid value, invalid value, and kind, field, text of the defect."""
    space, change, *expected = RULES[name]
    space.seed(1)
    value = space.sample()
    if space is LONG:
        value = np.arange(2)
    return space, value, change(value), *expected


@pytest.mark.parametrize("name", RULES)
def test_a_broken_rule_gives_one_defect_that_says_what_to_do(name):
    space, value, wrong, kind, field, text = broken(name)
    assert defects(space, value) == []
    (defect,) = defects(space, wrong)
    assert (defect.kind, defect.field) == (kind, field)
    assert str(defect).startswith(field) and ": " in str(defect)
    with pytest.raises(Defect, match=text):
        raise defect


@pytest.mark.parametrize("name", RULES)
def test_a_worker_applies_the_same_rules(name):
    space, _, wrong, kind, field, text = broken(name)
    write, _ = writer(space)
    if kind == "finite":  # checked for all rows at once
        with np.errstate(over="ignore"):
            write.write(1, wrong)
        assert write.not_finite() == {1: field}
    elif kind == "bounds" and isinstance(space, gs.Box):  # counted
        write.write(1, wrong)
        assert write.inspect(wrong) == [field]
    else:
        with pytest.raises(Defect, match=text) as caught:
            write.write(1, wrong)
            write.inspect(wrong)
        assert (caught.value.kind, caught.value.field) == (kind, field)


@pytest.mark.parametrize("name", [name for name in LEAVES if LEAVES[name][2] != "type"])
def test_a_batch_applies_the_same_rules(name):
    space, value, wrong, kind, field, _ = broken(name)
    arrays = [np.zeros((2, *x.shape), x.dtype) for x in spaces.leaves(space)]
    write = ObservationWriter(space, arrays)
    whole_batch = kind in ("shape", "dtype")
    batch = np.stack([wrong if whole_batch else value, wrong])
    if kind == "finite":
        with np.errstate(over="ignore"):
            write.write_batch(batch)
        assert write.not_finite() == {1: field}
    elif kind == "bounds" and isinstance(space, gs.Box):
        write.write_batch(batch)
        assert write.outside() == {field: 1}
    else:
        with pytest.raises(Defect) as caught:
            write.write_batch(batch)
        assert (caught.value.kind, caught.value.field) == (kind, field)
        assert caught.value.row == (None if whole_batch else 1)


def test_a_batch_refuses_masked_values_and_takes_a_masked_array_without_them():
    write = ObservationWriter(BOX, arrays := [np.zeros((2, 3), np.float32)])
    write.write_batch(np.ma.masked_array(np.ones((2, 3), np.float32)))
    assert arrays[0].all()
    with pytest.raises(Defect, match="masked values"):
        write.write_batch(np.ma.masked_array(np.ones((2, 3), np.float32), np.eye(2, 3)))


@pytest.mark.parametrize("space", GOOD, ids=str)
@settings(max_examples=20)
@given(seed=st.integers(0, 1000))
def test_samples_of_a_space_arrive_unchanged(space, seed):
    space.seed(seed)
    value = space.sample()
    write, arrays = writer(space)
    write.write(1, value)
    assert write.inspect(value) == []
    for array, leaf, got in zip(
        arrays, spaces.leaves(space), spaces.flatten(space, value), strict=True
    ):
        np.testing.assert_array_equal(array[1], np.asarray(got).astype(leaf.dtype))


@settings(max_examples=100)
@given(space=any_space(), data=st.data())
def test_none_instead_of_any_leaf_is_found_and_named(space, data):
    leaves = spaces.leaves(space)
    flat = spaces.flatten(space, space.sample())
    index = data.draw(st.integers(0, len(leaves) - 1))
    flat[index] = None
    (defect,) = defects(space, spaces.pack(space, flat))
    name = "observation" + "".join(f"[{key!r}]" for key in leaves[index].path)
    assert (defect.kind, defect.field) == ("type", name)


def test_all_defects_of_an_observation_are_found():
    wrong = {"a": np.full(2, 1e9), "c": 3}
    assert [(each.kind, each.field) for each in defects(DICT, wrong)] == [
        ("missing keys", "observation"),
        ("extra keys", "observation"),
        ("shape", "observation['a']"),
        ("dtype", "observation['a']"),
    ]


def test_only_the_documented_dtype_conversions_are_applied():
    write, (array,) = writer(WIDE)
    write.write(0, np.full((2, 2), 0.1))
    assert array.dtype == np.float32
    assert array[0, 0, 0] == np.float32(0.1)
    write.write(0, np.full((2, 2), 0.2, np.float32))  # float32 needs no conversion
    assert array[0, 0, 0] == np.float32(0.2)


@pytest.mark.parametrize("value", [np.int64(1), np.uint8(1), 1, np.array(1)])
def test_discrete_observations_may_be_any_integer(value):
    write, (array,) = writer(DISCRETE)
    write.write(0, value)
    assert array[0] == 1 and defects(DISCRETE, value) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_found_in_any_leaf(bad):
    space = gs.Dict({"a": BOX, "b": WIDE})
    write, arrays = writer(space, rows=4)
    arrays[0][1, 2] = bad
    arrays[1][3, 0, 1] = bad
    assert write.not_finite() == {1: "observation['a']", 3: "observation['b']"}


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.int64(1), np.float64(1)])
def test_rewards_may_be_any_number(value):
    reward, _, _ = validation.plain((None, value, False, False, {}))
    assert reward == 1.0


@pytest.mark.parametrize("value", [True, False, np.bool_(True)])
def test_flags_may_be_any_bool(value):
    _, terminated, _ = validation.plain((None, 1.0, value, False, {}))
    assert terminated is bool(value)
