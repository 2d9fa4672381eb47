"""Arrays that a loop in the graph writes one entry at a time.

They are TensorArrays, written in place.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.types import Nest


def empty(size: int, like: Nest) -> Any:
    """Create an array of ``size`` entries for each leaf.

    Args:
      size: size of the new first axis.
      like: tensors or specs of one entry.
    """
    return nest.map(
        lambda x: tf.TensorArray(x.dtype, size, element_shape=x.shape), like
    )


def write(written: Any, index: tf.Tensor, values: Nest) -> Any:
    """Write values at ``index``, int32 ``[]``; return the new arrays."""
    return nest.map(lambda array, x: array.write(index, x), written, values)


def stack(written: Any) -> Nest:
    """Return the arrays as tensors ``[size, ...]``."""
    return nest.map(lambda array: array.stack(), written)
