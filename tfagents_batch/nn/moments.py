"""Streaming mean and variance.

Sums are float64: in float32 the second moment is lost after about 2**24 samples.
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

FLOOR = 1e-4  # lower bound of a standard deviation
# Samples are equal up to rounding if their standard deviation is at most this share of
# their mean, or at most a number by which float32 cannot divide.
EQUAL, TINY = 1e-6, 1e-30


class Moments(tf.Module):
    """Mean and variance of a stream of samples.

    Args:
      shape: shape of one sample.

    Attributes:
      count: f64 ``[]``, number of samples.
      mean: f64 ``shape``.
      sum_of_squares: f64 ``shape``, sum of squared differences from the mean.
    """

    def __init__(self, shape):
        super().__init__()
        self.count, self.mean, self.sum_of_squares = (
            keras.Variable(np.zeros(each), dtype="float64", trainable=False)
            for each in ((), shape, shape)
        )

    def update(self, x: tf.Tensor, mask: tf.Tensor) -> None:
        """Add samples (Chan et al. 1979: parallel form of Welford's update).

        Args:
          x: ``[..., *shape]`` of any real dtype.
          mask: bool ``[...]``, true for valid samples.
        """
        lead = len(mask.shape)
        axes = list(range(lead))
        rank = len(x.shape) - lead
        weight = tf.reshape(tf.cast(mask, tf.float64), [*mask.shape, *[1] * rank])
        # Select before multiplying: 0 * nan is nan.
        x = tf.where(weight > 0, tf.cast(x, tf.float64), 0)
        count = tf.reduce_sum(weight)
        mean = tf.math.divide_no_nan(tf.reduce_sum(x, axes), count)
        within = tf.reduce_sum(weight * tf.square(x - mean), axes)
        before = self.count.value
        total = before + count
        delta = mean - self.mean.value
        share = tf.math.divide_no_nan(count, total)
        between = tf.square(delta) * before * share
        self.sum_of_squares.assign(self.sum_of_squares.value + within + between)
        self.mean.assign(self.mean.value + delta * share)
        self.count.assign(total)

    def std(self, floor: float = FLOOR, epsilon: float = 0.0) -> tf.Tensor:
        """Return the sample standard deviation, f32 ``shape``; 1 below two samples.

        Args:
          floor: lower bound of the standard deviation.
          epsilon: added to the variance.
        """
        count = self.count.value
        variance = self.sum_of_squares.value / tf.maximum(count - 1, 1)
        std = tf.sqrt(tf.maximum(variance + epsilon, floor**2))
        return tf.cast(tf.where(count > 1, std, tf.ones_like(std)), tf.float32)

    def scale(self, epsilon: float = 0.0) -> tf.Tensor:
        """Return the divisor, f32 ``shape``: ``std``, or 1 where samples are equal.

        Without an epsilon it has no absolute floor: it is proportional to the samples.
        """
        variance = self.sum_of_squares.value / tf.maximum(self.count.value - 1, 1)
        least = tf.maximum(EQUAL * tf.abs(self.mean.value), TINY)
        return tf.where(variance <= tf.square(least), 1.0, self.std(0.0, epsilon))

    def named_variables(self) -> dict[str, keras.Variable]:
        return {
            "count": self.count,
            "mean": self.mean,
            "sum_of_squares": self.sum_of_squares,
        }
