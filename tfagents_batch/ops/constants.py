"""Constants that every process names alike.

A tensor that TensorFlow knows to be constant, is no scalar and goes into a branch or a
loop is copied there under a name that differs from process to process. Names are part
of what XLA compiles, so its cache of compiled programs never finds such a program
again. What an operation computes is not copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def zeros(shape: Sequence[int], dtype: tf.DType = tf.float32) -> tf.Tensor:
    """``tf.zeros``, by an operation however small it is."""
    return tf.fill(shape, tf.zeros([], dtype))
