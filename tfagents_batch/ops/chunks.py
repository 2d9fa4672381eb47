"""Functions of many rows, evaluated on some at a time."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.types import Nest

# A chunk's largest leaf; what a convolution makes of it is about as large.
NUMBERS = 2**24
ROWS = 2**12


def apply(
    function: Callable[[Nest], tf.Tensor], rows: Nest, limit: int | None = None
) -> tf.Tensor:
    """``function(rows)`` in bounded memory, for a function that treats rows alike.

    Meant for evaluation: a gradient would hold everything again.

    Args:
      function: nest of ``[n, ...]`` to f32 ``[n]``.
      rows: nest of ``[N, ...]``, of static shape.
      limit: rows at a time; by default 4096, fewer where a row is large (images).

    Returns:
      f32 ``[N]``.
    """
    leaves = nest.flatten(rows)
    size = leaves[0].shape[0]
    largest = max(leaf.shape[1:].num_elements() for leaf in leaves)
    limit = limit or min(ROWS, max(NUMBERS // max(largest, 1), 1))
    if size <= limit:
        return function(rows)
    count = -(-size // limit)
    width = -(-size // count)  # even chunks: little of the last one is repeated

    def chunk(index):
        row = tf.minimum(index * width + tf.range(width), size - 1)
        return function(nest.gather(rows, row))

    signature = tf.TensorSpec([width], tf.float32)
    done = tf.map_fn(
        chunk, tf.range(count), parallel_iterations=1, fn_output_signature=signature
    )
    return tf.reshape(done, [-1])[:size]
