import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.graph.state import NestVariables, kept

NEST = {
    "count": np.array([1, -2], np.int32),
    "pair": (np.array(200, np.uint8), np.array([True])),
    "short": np.array(-3, np.int16),
    "real": np.array([0.5], np.float32),
}


OTHERS = [tf.uint8, tf.bool, tf.float32]  # of the nest
INTEGERS = tf.int8, tf.int16, tf.int32, tf.int64, tf.uint16, tf.uint32, tf.uint64


def test_integers_keep_their_width_on_the_host():
    named = NestVariables(NEST).named_variables()
    assert list(named) == ["000", "001", "002", "003", "004"]
    assert [x.dtype for x in named.values()] == [tf.int32, *OTHERS, tf.int16]
    with tf.device("/CPU:0"):
        assert [kept(x) for x in INTEGERS] == list(INTEGERS)


@pytest.mark.parametrize("device", ["/CPU:1", "/GPU:0"])
def test_no_variable_has_a_dtype_that_tensorflow_keeps_on_the_cpu(device):
    with tf.device(device):
        named = NestVariables(NEST).named_variables()
        assert [kept(x) for x in INTEGERS] == [tf.int64] * 7
    assert [x.dtype for x in named.values()] == [tf.int64, *OTHERS, tf.int64]


@pytest.mark.parametrize("device", ["/CPU:0", "/CPU:1"])
@pytest.mark.parametrize("compiled", [False, True])
def test_values_are_read_with_the_dtypes_they_were_given_with(compiled, device):
    with tf.device(device):
        state = NestVariables(NEST)

    @tf.function(jit_compile=compiled, autograph=False)
    def double():
        values = state.read()
        count = values["count"] * 2
        state.assign(values | {"count": count})
        return state.read()

    found = double()
    expected = NEST | {"count": NEST["count"] * 2}
    for x, y in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def test_floats_keep_their_width():
    with tf.device("/CPU:1"):
        assert [kept(x) for x in (tf.float64, tf.bfloat16)] == [tf.float64, tf.bfloat16]
