"""Arrays that a loop in the graph writes one entry at a time.

They are TensorArrays, written in place. Under ``tf.vectorized_map``, where XLA does not
support TensorArrays, they are plain tensors.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.graph import loops
from tfagents_batch.types import Nest


def empty(size: int, like: Nest) -> Any:
    """Create an array of ``size`` entries for each leaf.

    Args:
      size: size of the new first axis.
      like: tensors or specs of one entry.
    """
    if loops.active() is not None:
        return nest.map(lambda x: tf.zeros([size, *x.shape], x.dtype), like)
    return nest.map(
        lambda x: tf.TensorArray(x.dtype, size, element_shape=x.shape), like
    )


def write(written: Any, index: tf.Tensor, values: Nest) -> Any:
    """Write values at ``index``, int32 ``[]``; return the new arrays."""

    def leaf(array, x):
        if isinstance(array, tf.TensorArray):
            return array.write(index, x)
        return tf.tensor_scatter_nd_update(array, [[index]], x[None])

    return nest.map(leaf, written, values)


def stack(written: Any) -> Nest:
    """Return the arrays as tensors ``[size, ...]``."""
    return nest.map(
        lambda array: array.stack() if isinstance(array, tf.TensorArray) else array,
        written,
    )
