"""Constants with the same name in every process.

TensorFlow copies a constant that is not a scalar into each branch or loop that uses it,
under a name that differs between processes. Names are part of XLA's input, so XLA's
cache never finds such a program again. A tensor computed by an operation is not copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def zeros(shape: Sequence[int], dtype: tf.DType = tf.float32) -> tf.Tensor:
    """Return zeros that an operation computes, unlike a small ``tf.zeros``."""
    return tf.fill(shape, tf.zeros([], dtype))
