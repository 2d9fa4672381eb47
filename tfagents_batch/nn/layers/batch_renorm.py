"""Batch renormalization (Ioffe 2017, arXiv:1702.03275), as CrossQ uses it."""

from __future__ import annotations

import keras
import tensorflow as tf

# As in CrossQ (Bhatt et al. 2024, arXiv:1902.05605) and its code.
MOMENTUM = 0.99  # share that is kept of the statistics
_EPSILON = 1e-3  # of the variance
_RATIO, _SHIFT = 3.0, 5.0  # bounds of the corrections r and d
WARMUP = 100_000  # batches before there are corrections; until then it is BatchNorm


# The first networks of an ensemble, or int32 ``[M]``: these; None for all.
Which = int | tf.Tensor | None


class BatchRenorm(keras.layers.Layer):
    """Normalize each unit over a batch, ``[N, F]`` or ``[K, N, F] -> [K, N, F]``.

    K networks have statistics of their own. With ``rows``, bool ``[N]``, the
    statistics are those of these rows, and moving means of them are kept; without, the
    moving means are used. After ``WARMUP`` batches, corrections r and d bring the
    result close to what the moving means would give (the paper's algorithm 1); no
    gradient flows into them.
    """

    def __init__(self):
        super().__init__(dtype="float32")

    def build(self, input_shape):
        """Create the variables; ``input_shape`` is ``[K, 1, F]``."""
        shape = tuple(input_shape)
        self.scale = self.add_weight(name="scale", shape=shape, initializer="ones")
        self.offset = self.add_weight(name="offset", shape=shape, initializer="zeros")
        moving = {"shape": shape, "trainable": False}
        self.mean = self.add_weight(name="mean", initializer="zeros", **moving)
        self.variance = self.add_weight(name="variance", initializer="ones", **moving)
        moving = {"shape": (), "dtype": "int64", "trainable": False}
        self.batches = self.add_weight(name="batches", initializer="zeros", **moving)

    def call(self, x, which: Which = None, rows=None):
        """Return the normalized units; ``which`` is None with rows."""
        variables = self.mean, self.variance, self.scale, self.offset
        moving_mean, moving_variance, scale, offset = (of(v, which) for v in variables)
        if rows is None:
            mean, root = moving_mean, tf.math.rsqrt(moving_variance + _EPSILON)
            return (x - mean) * (root * scale) + offset
        mean, variance = _moments(x, rows)
        deviation, moving = (tf.sqrt(v + _EPSILON) for v in (variance, moving_variance))
        warm = self.batches.value >= WARMUP
        ratio = tf.clip_by_value(deviation / moving, 1 / _RATIO, _RATIO)
        shift = tf.clip_by_value((mean - moving_mean) / moving, -_SHIFT, _SHIFT)
        ratio = tf.stop_gradient(tf.where(warm, ratio, 1.0))
        shift = tf.stop_gradient(tf.where(warm, shift, 0.0))
        self._keep(mean, variance)
        return ((x - mean) / deviation * ratio + shift) * scale + offset

    def _keep(self, mean: tf.Tensor, variance: tf.Tensor) -> None:
        """Move the statistics towards those of a batch, if they are finite."""
        finite = tf.reduce_all(tf.math.is_finite(mean) & tf.math.is_finite(variance))
        share = tf.where(finite, 1 - MOMENTUM, 0.0)
        for moving, new in ((self.mean, mean), (self.variance, variance)):
            new = tf.where(finite, tf.stop_gradient(new), 0.0)
            moving.assign(moving.value + share * (new - moving.value))
        self.batches.assign(self.batches.value + tf.cast(finite, tf.int64))


def _moments(x: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean and variance over some rows, f32 ``[..., 1, F]``."""
    weight = tf.cast(rows, tf.float32)
    weight = (weight / tf.maximum(tf.reduce_sum(weight), 1.0))[:, tf.newaxis]
    x = tf.where(rows[:, tf.newaxis], tf.cast(x, tf.float32), 0.0)
    mean = tf.reduce_sum(weight * x, -2, keepdims=True)
    return mean, tf.reduce_sum(weight * tf.square(x - mean), -2, keepdims=True)


def of(x, which: Which):
    """Return the parts of some networks, of ``[K, ...]``."""
    return tf.gather(x, which) if tf.is_tensor(which) else x[:which]
