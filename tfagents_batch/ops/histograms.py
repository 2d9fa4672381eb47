"""Vectors of numbers for the histograms of a log.

Large tensors are sampled evenly, which bounds the cost of a histogram.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.ops import masked

MOST = 2**14  # largest size of a histogram, in numbers


def rows(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Sample ``[T, B, ...]`` to f32 ``[n]``; masked rows are NaN, which logs omit."""
    x = masked.safe(tf.cast(x, tf.float32), mask, float("nan"))
    by_row = tf.reshape(x, [mask.shape.num_elements(), -1])
    return tf.reshape(_sampled(by_row, x.shape.num_elements()), [-1])


def tensors(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Sample tensors of any shape to one f32 ``[n]``, the same share of each."""
    flat = [tf.reshape(tf.cast(part, tf.float32), [-1]) for part in parts]
    size = sum(nest.static_size(part) for part in flat)
    return tf.concat([_sampled(part, size) for part in flat], 0)


def _sampled(x: tf.Tensor, size: int) -> tf.Tensor:
    """Sample rows evenly; ``size`` is the number of numbers in the histogram."""
    # The stride is odd because most axes are even: so every column is sampled.
    stride = max(1, -(-size // MOST)) | 1
    return x[::stride] if stride > 1 else x
