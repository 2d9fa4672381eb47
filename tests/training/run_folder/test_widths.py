import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.graph.state import kept
from tfagents_batch.training.run_folder.replay_file import cast, fits

INTEGERS = tf.int8, tf.int16, tf.int32, tf.int64, tf.uint16, tf.uint32, tf.uint64
DTYPES = *INTEGERS, tf.uint8, tf.bool, tf.float32, tf.float64, tf.bfloat16


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_variable_of_the_host_fits_that_of_a_gpu_and_back(dtype):
    with tf.device("/GPU:0"):
        wide = kept(dtype)
    assert fits(dtype.name, wide.name) and fits(wide.name, dtype.name)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_values_return_from_a_gpu_unchanged(dtype):
    values = np.array([dtype.min, 1, dtype.max], dtype.as_numpy_dtype)
    wide = tf.cast(values, tf.int64).numpy()
    found = cast(wide, dtype.as_numpy_dtype, "n")
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("other", ["float32", "bool", "uint8", "object", "", None, []])
def test_other_dtypes_do_not_fit_integers(other):
    assert not fits(other, "int64") and not fits("int64", other)


@pytest.mark.parametrize(
    "value, dtype", [(2**31, np.int32), (-1, np.uint32), (-129, np.int8)]
)
def test_a_value_that_a_dtype_cannot_hold_is_an_error(value, dtype):
    with pytest.raises(ValueError, match=rf"n has the value {value}; expected "):
        cast(np.array([0, value]), dtype, "n")
