"""Sum tree: weights, drawn in proportion to their size.

Each level of the tree is a variable ``[n]``, whose groups of ``_WIDTH`` entries are
the children of one entry of the next level. The sums are recomputed from the children,
so that rounding errors do not accumulate. Narrow nodes were the fastest: the prefix
sums of a node take ``_WIDTH``^2 additions.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

_WIDTH = 16
_BELOW_1 = 1 - 2.0**-30


class SumTree(tf.Module):
    """Non-negative f32 weights of ``size`` leaves, and their sums.

    Leaf ``size`` exists too, for writes that must change nothing: give it weight 0.
    """

    def __init__(self, size: int):
        super().__init__()
        width = _padded(size + 1)
        self._levels = [_level(width)]
        while width > _WIDTH:
            width = _padded(width // _WIDTH)
            self._levels.append(_level(width))

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return ``{level: variable}``, leaves first."""
        return {f"level_{i}": level for i, level in enumerate(self._levels)}

    def total(self) -> tf.Tensor:
        """Return the sum of all weights, f32 ``[]``."""
        return _prefix(self._levels[-1][tf.newaxis])[0, -1]

    def read(self, index: tf.Tensor) -> tf.Tensor:
        """Return the f32 ``[N]`` weights of leaves."""
        return tf.gather(self._levels[0], index)

    def write(self, index: tf.Tensor, weight: tf.Tensor) -> None:
        """Set weights; of equal indices the last one counts.

        Args:
          index: int32 ``[N]``.
          weight: f32 ``[N]``.
        """
        self._levels[0].scatter_update(tf.IndexedSlices(weight, index))
        for below, level in zip(self._levels[:-1], self._levels[1:], strict=True):
            index //= _WIDTH
            total = tf.reduce_sum(_children(below, index), -1)
            level.scatter_update(tf.IndexedSlices(total, index))

    def find(self, part: tf.Tensor) -> tf.Tensor:
        """Return the leaves at parts of the total weight, int32 ``[N]``.

        Args:
          part: f64 ``[N]`` in [0, 1): leaf i is found for a part of [0, 1) as large
            as its part of the total.
        """
        rest = part * tf.cast(self.total(), tf.float64)
        index = tf.zeros(part.shape, tf.int32)
        for level in reversed(self._levels):
            prefix = tf.cast(_prefix(_children(level, index)), tf.float64)
            # Rounding must not lead behind the last child with a weight.
            rest = tf.minimum(rest, prefix[:, -1] * _BELOW_1)
            below = prefix <= rest[:, tf.newaxis]
            child = tf.reduce_sum(tf.cast(below, tf.int32), -1)
            index = index * _WIDTH + tf.minimum(child, _WIDTH - 1)  # if all are 0
            rest -= tf.reduce_max(tf.where(below, prefix, 0.0), -1)
        return index


def _padded(size: int) -> int:
    return -(-size // _WIDTH) * _WIDTH


def _level(width: int) -> tf.Variable:
    return tf.Variable(tf.zeros([width]), trainable=False)


def _children(level: tf.Variable, index: tf.Tensor) -> tf.Tensor:
    """Return the f32 ``[N, _WIDTH]`` children of nodes."""
    return tf.gather(tf.reshape(level, [-1, _WIDTH]), index)


def _prefix(x: tf.Tensor) -> tf.Tensor:
    """Return f32 ``[N, n]`` sums of ``[N, n]`` up to each entry, that one included."""
    before = np.tri(x.shape[-1], dtype=np.float32)
    return tf.reduce_sum(x[:, tf.newaxis] * before, -1)
