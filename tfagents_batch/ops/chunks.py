"""Functions of many rows, evaluated on some at a time."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.ops import arrays
from tfagents_batch.types import Nest

# A chunk's largest leaf; what a convolution makes of it is about as large.
NUMBERS = 2**24
ROWS = 2**12
LAYER = 2**8  # numbers that a network makes of a small step


def apply(
    function: Callable[[Nest], tf.Tensor],
    rows: Nest,
    limit: int | None = None,
    steps: int | None = None,
) -> tf.Tensor:
    """``function(rows)`` in bounded memory, for a function that treats rows alike.

    Meant for evaluation: a gradient would hold everything again.

    Args:
      function: nest of ``[n, ...]`` to f32 ``[n]``, or ``[n, steps]``.
      rows: nest of ``[N, ...]``, of static shape.
      limit: rows at a time; by default 4096, fewer where a row is large (images).
      steps: where a row is a sequence: its length. As many sequences as memory allows
        are evaluated at a time then, for each pass goes through all of time.

    Returns:
      f32 ``[N]``, or ``[N, steps]``.
    """
    leaves = nest.flatten(rows)
    size = leaves[0].shape[0]
    limit = limit or _limit(leaves, steps)
    if size <= limit:
        return function(rows)
    count = -(-size // limit)
    width = -(-size // count)  # even chunks: little of the last one is repeated
    shape = [] if steps is None else [steps]

    def chunk(index):
        row = tf.minimum(index * width + tf.range(width), size - 1)
        return function(nest.gather(rows, row))

    # Not tf.map_fn, which XLA cannot compile for many copies at once.
    _, done = tf.while_loop(
        lambda index, _: index < count,
        lambda index, done: (index + 1, arrays.write(done, index, chunk(index))),
        (0, arrays.room(count, tf.TensorSpec([width, *shape], tf.float32))),
        maximum_iterations=count,
        parallel_iterations=1,
    )
    return tf.reshape(arrays.stacked(done), [-1, *shape])[:size]


def _limit(leaves: list[tf.Tensor], steps: int | None) -> int:
    largest = max(leaf.shape[1:].num_elements() for leaf in leaves)
    if steps is None:
        return min(ROWS, max(NUMBERS // max(largest, 1), 1))
    return max(NUMBERS // max(largest, LAYER * steps), 1)
