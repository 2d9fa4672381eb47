from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs
from hypothesis import given
from hypothesis import strategies as st

from tfagents_batch import nest

TIME, BATCH = 3, 2


class Pair(NamedTuple):
    x: tf.Tensor
    y: tf.Tensor


def tensors(*leading):
    """Return a nest of distinct numbers, ``[*leading, ...]``."""

    def leaf(*shape):
        size = int(np.prod([*leading, *shape]))
        return tf.reshape(tf.range(size), [*leading, *shape])

    return {"a": leaf(), "b": (leaf(4), Pair(leaf(2, 3), leaf(1)))}


def assert_equal(found, expected):
    tf.nest.assert_same_structure(found, expected)
    for x, y in zip(nest.flatten(found), nest.flatten(expected), strict=True):
        np.testing.assert_array_equal(x, y)


@given(st.integers(1, 4), st.integers(1, 4))
def test_unfold_undoes_fold(time, batch):
    values = tensors(time, batch)
    folded = nest.fold(values)
    assert nest.flatten(folded)[0].shape == [time * batch]
    assert_equal(nest.unfold(folded, time, batch), values)


def test_fold_makes_rows_of_one_time_adjacent():
    folded = nest.fold(tensors(TIME, BATCH))
    np.testing.assert_array_equal(folded["a"], np.arange(TIME * BATCH))


def test_batch_apply_works_row_by_row():
    values = tensors(TIME, BATCH)
    result = nest.batch_apply(
        lambda x, y: {"sum": x["b"][0] + y["b"][0]}, values, values
    )
    assert_equal(result, {"sum": 2 * values["b"][0]})


@pytest.mark.parametrize(
    "condition", [True, [True, False, True], [[True, False]] * TIME]
)
def test_where_selects_by_any_prefix_of_the_axes(condition):
    ones = nest.map(tf.ones_like, tensors(TIME, BATCH))
    zeros = nest.map(tf.zeros_like, ones)
    found = nest.where(tf.constant(condition), ones, zeros)
    condition = np.array(condition)
    for x in nest.flatten(found):
        shape = [*condition.shape, *[1] * (len(x.shape) - condition.ndim)]
        expected = np.broadcast_to(condition.reshape(shape), x.shape)
        np.testing.assert_array_equal(x, expected)


def test_gather_takes_rows_of_every_leaf():
    values = tensors(TIME)
    found = nest.gather(values, tf.constant([2, 0, 2]))
    assert_equal(found, nest.map(lambda x: x.numpy()[[2, 0, 2]], values))


def test_specs_describe_the_values_of_a_space():
    space = gs.Dict(
        {
            "image": gs.Box(0, 255, (4, 4, 3), np.uint8),
            "pose": gs.Tuple([gs.Box(-1, 1, (2,), np.float64), gs.Discrete(3)]),
        }
    )
    expected = {
        "image": tf.TensorSpec([7, 4, 4, 3], tf.uint8, "image"),
        "pose": (
            tf.TensorSpec([7, 2], tf.float32, "pose/0"),
            tf.TensorSpec([7], tf.int32, "pose/1"),
        ),
    }
    assert nest.specs(space, [7]) == expected
    assert nest.specs(gs.Discrete(2), [None, 3]) == tf.TensorSpec(
        [None, 3], tf.int32, "value"
    )


def test_prefixes_of_dicts_inside_follow_each_other():
    named = {"kernel": 1, "adam": {"m": 2, "v": {"0": 3}}}
    expected = {"net/kernel": 1, "net/adam/m": 2, "net/adam/v/0": 3}
    assert nest.prefixed("net", named) == expected
