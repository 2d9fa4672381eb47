import json

import numpy as np
import pytest
from gymnasium import spaces as gs
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch import spaces
from tfagents_batch.errors import UserError

DTYPES = (np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64)
shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)


@st.composite
def boxes(draw):
    dtype, shape = np.dtype(draw(st.sampled_from(DTYPES))), draw(shapes)
    low = draw(st.integers(0, 50))
    if draw(st.booleans()):  # equal bounds everywhere
        return gs.Box(low, low + draw(st.integers(1, 50)), shape, dtype.type)
    spread = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    low, high = (low + spread).astype(dtype), (low + 1 + 2 * spread).astype(dtype)
    if dtype.kind == "f" and draw(st.booleans()):
        low, high = np.full(shape, -np.inf, dtype), high
    return gs.Box(low, high, shape, dtype.type)


leaf = st.one_of(
    boxes(),
    st.builds(
        lambda n, start: gs.Discrete(n, start=start),
        st.integers(1, 9),
        st.integers(-5, 5),
    ),
    st.lists(st.integers(1, 5), min_size=1, max_size=3).map(gs.MultiDiscrete),
    st.just(gs.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [2, 3]])),
    st.integers(1, 5).map(gs.MultiBinary),
    st.just(gs.MultiBinary([2, 3])),
)
space = st.recursive(
    leaf,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(gs.Tuple),
        st.dictionaries(st.text("zab", min_size=1), inner, min_size=1, max_size=3).map(
            gs.Dict
        ),
    ),
    max_leaves=6,
)


@given(space)
def test_a_space_survives_a_round_trip_through_json(space):
    text = json.dumps(spaces.to_json(space), allow_nan=False)
    again = spaces.from_json(json.loads(text))
    assert again == space
    assert spaces.to_json(again) == json.loads(text)


@settings(max_examples=50)
@given(space, st.integers(0, 100))
def test_pack_undoes_flatten_in_the_order_of_the_leaves(space, seed):
    space.seed(seed)
    value = space.sample()
    flat = spaces.flatten(space, value)
    leaves = spaces.leaves(space)
    assert len(flat) == len(leaves)
    packed = spaces.pack(space, flat)
    for leaf, array in zip(leaves, flat, strict=True):
        assert np.shape(array) == leaf.shape
        assert leaf.space.contains(np.asarray(array))
        found, original = packed, value
        for key in leaf.path:
            found, original = found[key], original[key]
        np.testing.assert_array_equal(found, original)


def test_dict_keys_are_sorted_for_any_order():
    one = gs.Dict({"b": gs.Discrete(2), "a": gs.MultiBinary(3)})
    other = gs.Dict([("a", gs.MultiBinary(3)), ("b", gs.Discrete(2))])
    assert [leaf.name for leaf in spaces.leaves(one)] == ["a", "b"]
    assert spaces.to_json(one) == spaces.to_json(other)


def test_leaves_of_nested_spaces_are_named_by_paths():
    space = gs.Dict({"x": gs.Tuple([gs.Discrete(2), gs.Box(0, 1, (3,))])})
    assert [leaf.path for leaf in spaces.leaves(space)] == [("x", 0), ("x", 1)]
    assert [leaf.name for leaf in spaces.leaves(space)] == ["x/0", "x/1"]
    assert spaces.leaves(gs.Discrete(2))[0].name == "value"


@pytest.mark.parametrize(
    "space, dtype",
    [
        (gs.Box(0, 1, (2,), np.float64), "float32"),
        (gs.Box(0, 1, (2,), np.float32), "float32"),
        (gs.Box(0, 1, (2,), np.float16), "float16"),
        (gs.Box(0, 9, (2,), np.int64), "int32"),
        (gs.Box(0, 9, (2,), np.uint64), "uint32"),
        (gs.Box(0, 255, (2,), np.uint8), "uint8"),
        (gs.Discrete(3), "int32"),
        (gs.MultiDiscrete([3]), "int32"),
        (gs.MultiBinary(3), "int8"),
    ],
)
def test_leaves_are_at_most_32_bits_wide(space, dtype):
    (leaf,) = spaces.leaves(space)
    assert leaf.dtype == dtype
    assert all(type(size) is int for size in leaf.shape)


@pytest.mark.parametrize(
    "space, message",
    [
        (gs.Text(5), "space Text is not supported; use Box, Discrete"),
        (gs.Dict({"a": gs.Tuple([gs.Text(5)])}), "space Text at a/0 is not supported"),
        (gs.Sequence(gs.Discrete(2)), "space Sequence is not supported"),
        (gs.Graph(gs.Discrete(2), None), "space Graph is not supported"),
        (
            gs.Discrete(2**40),
            r"Discrete\(1099511627776\) has values from 0 up to 10",
        ),
        (
            gs.Dict(a=gs.Discrete(2, start=-(2**31) - 1)),
            "at a has values from -21474",
        ),
        (gs.MultiDiscrete([2, 2**31 + 1]), "up to 2147483648; expected int32"),
    ],
)
def test_unsupported_spaces_are_refused_by_name(space, message):
    for function in (spaces.leaves, spaces.to_json):
        with pytest.raises(UserError, match=message):
            function(space)
