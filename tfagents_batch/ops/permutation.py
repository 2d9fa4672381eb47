"""Random orders without sorting: sorting costs XLA more than a minibatch's update.

A keyed bijection of the k-bit words, 2^k the next power of two, walks each position
along its cycle until it is inside again ("cycle walking": Black and Rogaway 2002,
section 3). As every step is a bijection, so is the whole.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.ops import carried

_ROUNDS = 8  # with 6, orders of a dozen rows were measurably uneven in 200,000 draws
# More than half of the words are inside, so a walk of more steps is one of 2^64.
_WALKS = 64
_ONE = np.uint32(1)


def random_order(size: int, count: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """int32 ``[size]``: the numbers below ``count`` in a random order.

    Args:
      size: static, at least ``count``.
      count: int32 scalar; what stands behind the first ``count`` entries is arbitrary,
        but in ``[0, 2 * size)``.
      key: int32 ``[2]``, see ``seeds``.

    Returns:
      The same in eager, graph and compiled code.
    """
    words = tf.unstack(seeds.words([2 * _ROUNDS], key))
    top = tf.cast(tf.maximum(count - 1, 1), tf.uint32)
    for shift in (1, 2, 4, 8, 16):  # all bits below the highest one
        top |= tf.bitwise.right_shift(top, tf.constant(shift, tf.uint32))
    set_bits = tf.bitwise.right_shift(top, tf.cast(tf.range(32), tf.uint32)) & _ONE
    half = (tf.reduce_sum(set_bits) + _ONE) // tf.constant(2, tf.uint32)

    def mix(x):
        for addend, factor in zip(words[::2], words[1::2], strict=True):
            x = (x + addend) * (factor | _ONE) & top  # odd factors have inverses
            x ^= tf.bitwise.right_shift(x, half)
        return x

    def outside(x):
        return tf.cast(x, tf.int32) >= count

    position = tf.range(size)
    x = mix(tf.cast(position, tf.uint32))
    x = carried.repeat(
        lambda _, x: tf.where(outside(x), mix(x), x),
        x,
        most=_WALKS,
        go_on=lambda x: tf.reduce_any(outside(x) & (position < count)),
        pure=True,
    )
    return tf.cast(x, tf.int32)


def true_first(mask: tf.Tensor) -> tf.Tensor:
    """int32 ``[N]``: the indices where ``mask`` holds, in their order.

    Args:
      mask: bool ``[N]``.

    Returns:
      Behind them stands N.
    """
    size = mask.shape[0]
    seen = tf.cumsum(tf.cast(mask, tf.int32))
    wanted = tf.range(1, size + 1)
    index = tf.zeros([size], tf.int32)
    # Binary search for the first index by which ``wanted`` true ones were seen.
    for bit in reversed(range(size.bit_length())):
        step = 1 << bit
        probe = tf.gather(seen, tf.minimum(index + step - 1, size - 1))
        index = tf.where((probe < wanted) & (index + step <= size), index + step, index)
    return index
