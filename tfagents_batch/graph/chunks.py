"""Evaluation of a function of many rows in chunks."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.graph import arrays
from tfagents_batch.types import Nest

# Largest leaf of a chunk, in numbers; a convolution's output is about as large.
NUMBERS = 2**24
ROWS = 2**12
LAYER = 2**8  # numbers that a network computes for a small step


def apply(
    function: Callable[[Nest], tf.Tensor],
    rows: Nest,
    limit: int | None = None,
    steps: int | None = None,
) -> tf.Tensor:
    """Return ``function(rows)``, computed in bounded memory.

    Use it without gradients: a gradient would keep all chunks in memory.

    Args:
      function: function from a nest of ``[n, ...]`` to f32 ``[n]``, or ``[n, steps]``;
        it treats every row in the same way.
      rows: nest of ``[N, ...]``, of static shape.
      limit: rows per chunk; by default 4096, and fewer if a row is large (images).
      steps: length of a row that is a sequence. Chunks are then as large as memory
        allows, because each chunk takes a loop over all steps.

    Returns:
      f32 ``[N]``, or ``[N, steps]``.
    """
    leaves = nest.flatten(rows)
    size = leaves[0].shape[0]
    limit = limit or _limit(leaves, steps)
    if size <= limit:
        return function(rows)
    count = -(-size // limit)
    width = -(-size // count)  # even chunks, so that few rows are computed twice
    shape = [] if steps is None else [steps]

    def chunk(index):
        row = tf.minimum(index * width + tf.range(width), size - 1)
        return function(nest.gather(rows, row))

    _, done = tf.while_loop(
        lambda index, _: index < count,
        lambda index, done: (index + 1, arrays.write(done, index, chunk(index))),
        (0, arrays.empty(count, tf.TensorSpec([width, *shape], tf.float32))),
        parallel_iterations=1,
        name="chunks",
    )
    return tf.reshape(arrays.stack(done), [-1, *shape])[:size]


def _limit(leaves: list[tf.Tensor], steps: int | None) -> int:
    largest = max(leaf.shape[1:].num_elements() for leaf in leaves)
    if steps is None:
        return min(ROWS, max(NUMBERS // max(largest, 1), 1))
    return max(NUMBERS // max(largest, LAYER * steps), 1)
