"""Values that a loop writes one by one, in a program and in copies of one.

An array is written where it stands. Under ``tf.vectorized_map`` XLA has none, and a
tensor takes its place.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.ops import carried
from tfagents_batch.types import Nest


def room(size: int, like: Nest) -> Any:
    """Room for ``size`` values of each leaf.

    Args:
      size: of the new first axis.
      like: tensors or specs of one value.
    """
    if carried.active() is not None:
        return nest.map(lambda x: tf.zeros([size, *x.shape], x.dtype), like)
    return nest.map(
        lambda x: tf.TensorArray(x.dtype, size, element_shape=x.shape), like
    )


def write(written: Any, index: tf.Tensor, values: Nest) -> Any:
    """``written`` with values at ``index``, int32 ``[]``."""

    def leaf(array, x):
        if isinstance(array, tf.TensorArray):
            return array.write(index, x)
        return tf.tensor_scatter_nd_update(array, [[index]], x[None])

    return nest.map(leaf, written, values)


def stacked(written: Any) -> Nest:
    """Tensors ``[size, ...]``."""
    return nest.map(
        lambda array: array.stack() if isinstance(array, tf.TensorArray) else array,
        written,
    )
