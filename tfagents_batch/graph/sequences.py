"""Trajectories cut into sequences, for recurrent networks.

``[T, B, ...]`` becomes ``[C, L, ...]`` with C = B * ceil(T / L): sequence k * B + b is
part k of stream b. Sequences are the leading axis, so minibatches are drawn as from
single transitions; ``swap`` makes them time-major for a network. A sequence may contain
several episodes or parts of them: ``first`` marks the start of each.
"""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.types import Nest


def cut(x: Nest, length: int, padding: float = 0.0) -> Nest:
    """Cut ``[T, B, ...]`` leaves into ``[C, L, ...]``.

    Args:
      x: nest, its T and B static.
      length: L, at least 1.
      padding: constant after T in the last part of every stream; false in a mask. Give
        one that later operations accept, such as 1 for a standard deviation.
    """

    def leaf(x):
        time, batch, *rest = x.shape
        parts = -(-time // length)
        missing = parts * length - time
        if missing:
            fill = tf.fill([missing, batch, *rest], tf.cast(padding, x.dtype))
            x = tf.concat([x, fill], 0)
        x = tf.reshape(x, [parts, length, batch, *rest])
        x = tf.transpose(x, [0, 2, 1, *range(3, len(x.shape))])
        return tf.reshape(x, [parts * batch, length, *rest])

    return nest.map(leaf, x)


def starts(x: Nest, length: int) -> Nest:
    """Return the first entry of every sequence: ``[T, B, ...]`` to ``[C, ...]``."""
    return nest.fold(nest.map(lambda x: x[::length], x))


def swap(x: Nest) -> Nest:
    """Swap the two leading axes."""
    return nest.map(
        lambda x: tf.transpose(x, [1, 0, *range(2, len(x.shape))]),
        x,
    )
