"""Constants that TensorFlow neither renames nor keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf


def zeros(shape: Sequence[int], dtype: tf.DType = tf.float32) -> tf.Tensor:
    """Return zeros that an operation computes, unlike a small ``tf.zeros``.

    TensorFlow copies a constant that is not a scalar into each branch or loop that uses
    it, under a name that differs between processes. Names are part of XLA's input, so
    XLA's cache never finds such a program again. A tensor computed by an operation is
    not copied.
    """
    return tf.fill(shape, tf.zeros([], dtype))


def argument(value: int, dtype: tf.DType = tf.int32) -> tf.Tensor:
    """Return an integer as an argument of a program.

    ``tf.constant`` keeps each new Python integer and its tensor for ever, 760 bytes, to
    find them again. It does not keep those of NumPy.
    """
    return tf.constant(np.asarray(value, dtype.as_numpy_dtype))
