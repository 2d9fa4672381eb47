import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.graph import arrays
from tfagents_batch.types import TimeStep

NEST = {
    "step": TimeStep(
        {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([7, 8])},
        np.float32(1.5),
        np.array([True, False]),
        np.array([], bool),
        np.array([False]),
        {},
    ),
    "count": np.array(3),
    "none": (),
}


@pytest.mark.parametrize("compiled", [False, True])
def test_a_nest_is_one_block_for_each_dtype_and_comes_back_as_it_was(compiled):
    values = tf.nest.map_structure(tf.constant, NEST)
    like = tf.nest.map_structure(tf.TensorSpec.from_tensor, values)
    joined = tf.function(arrays.join, jit_compile=compiled, autograph=False)(values)
    assert {k: x.shape.as_list() for k, x in joined.items()} == {
        "bool": [3],
        "float32": [7],
        "int64": [3],
    }
    found = tf.function(
        lambda x: arrays.split(x, like), jit_compile=compiled, autograph=False
    )(joined)
    tf.nest.assert_same_structure(found, values)
    tf.nest.map_structure(np.testing.assert_array_equal, found, values)
