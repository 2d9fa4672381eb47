"""Distributions over Box actions: DiagNormal, and TanhNormal within bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.ops import event

_LOG_2PI = math.log(2 * math.pi)
# Largest float32 below 1. An action at a bound is mapped back to its atanh, 8.66.
_BELOW_ONE = 1 - 2.0**-24
# Coefficients of a polynomial, the highest power first, see ``log_upper_tail``.
_ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)
_NODES = np.linspace(-5, 5, 32, dtype=np.float32)
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.sum(np.exp(-(_NODES**2) / 2))


def normal_noise(shape: Sequence[int], seed) -> tf.Tensor:
    """Draw standard normal noise, f32 ``shape``."""
    return seeds.normal(shape, seeds.key(seed, "action"))


def log_upper_tail(z: tf.Tensor) -> tf.Tensor:
    """Return log P(x > z) of a standard normal x, f32 with the shape of z.

    It needs no ``erfc``, which underflows and which ONNX does not have: erfc(x) is
    t exp(-x^2 + P(t)) with t = 1 / (1 + x / 2), to a relative error of 1.2e-7 (Press et
    al. 1992, Numerical Recipes in C, section 6.2).
    """
    x = tf.abs(z) / math.sqrt(2)
    t = 1 / (1 + x / 2)
    polynomial = tf.zeros_like(t)
    for coefficient in _ERFC:
        polynomial = polynomial * t + coefficient
    tail = tf.math.log(t / 2) + polynomial - tf.square(x)
    return tf.where(z < 0, tf.math.log(1 - tf.exp(tail)), tail)


class DiagNormal:
    """Distribution of independent normals.

    Attributes:
      mean, std: f32 ``[..., *event]``; an event is one action. The std is greater than
        0, and is broadcast to the shape of the mean.
    """

    def __init__(self, mean: tf.Tensor, std: tf.Tensor, event_ndims: int = 1):
        self.mean = mean
        self.std = std if std.shape == mean.shape else std + tf.zeros_like(mean)
        self._event_ndims = event_ndims

    @property
    def params(self) -> dict[str, tf.Tensor]:
        return {"mean": self.mean, "std": self.std}

    def with_params(self, params: dict[str, tf.Tensor]) -> DiagNormal:
        return DiagNormal(params["mean"], params["std"], self._event_ndims)

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Return actions, f32 ``[..., *event]``, differentiable in mean and std."""
        return self.mean + self.std * noise

    def mode(self) -> tf.Tensor:
        """Return the mean, f32 ``[..., *event]``."""
        return self.mean

    def log_prob(self, action: tf.Tensor) -> tf.Tensor:
        """Return log densities, summed over the event, f32 ``[...]``."""
        distance = tf.square((action - self.mean) / self.std)
        return -self._sum(0.5 * (distance + _LOG_2PI) + tf.math.log(self.std))

    def entropy(self) -> tf.Tensor:
        """Return the entropy in nats, summed over the event, f32 ``[...]``."""
        return self._sum(0.5 * (1 + _LOG_2PI) + tf.math.log(self.std))

    def kl(self, other: DiagNormal) -> tf.Tensor:
        """Return KL(self || other) in nats, summed over the event, f32 ``[...]``."""
        ratio = self.std / other.std
        distance = tf.square((self.mean - other.mean) / other.std)
        return self._sum(0.5 * (tf.square(ratio) + distance - 1) - tf.math.log(ratio))

    def _sum(self, x: tf.Tensor) -> tf.Tensor:
        return event.sum(x, self._event_ndims)


class TanhNormal:
    """Distribution of low + (high - low) (tanh(x) + 1) / 2 for independent normals x.

    Haarnoja et al. 2018 (arXiv:1801.01290), appendix C. Mean and std are those of x.
    Bounds are finite, static and broadcast to an action; low < high.
    """

    def __init__(
        self,
        mean: tf.Tensor,
        std: tf.Tensor,
        low: np.ndarray | float,
        high: np.ndarray | float,
        event_ndims: int = 1,
    ):
        self._base = DiagNormal(mean, std, event_ndims)
        self._low, self._high = (np.asarray(x, np.float32) for x in (low, high))
        self._event_ndims = event_ndims

    @property
    def params(self) -> dict[str, tf.Tensor]:
        """Mean and std of x."""
        return self._base.params

    def with_params(self, params: dict[str, tf.Tensor]) -> TanhNormal:
        mean, std = params["mean"], params["std"]
        return TanhNormal(mean, std, self._low, self._high, self._event_ndims)

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """Return actions strictly within the bounds, differentiable in mean and std."""
        return self._squash(self._base.sample(noise))

    def sample_with_log_prob(self, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return actions and their log densities; both are differentiable.

        ``log_prob`` of a sample has to invert tanh, which is inexact near the bounds.
        """
        x = self._base.sample(noise)
        log_prob = self._base.log_prob(x) - self._sum(self._log_det(x))
        return self._squash(x), log_prob

    def mode(self) -> tf.Tensor:
        """Return the squashed mean, f32 ``[..., *event]``.

        It is the median, and the greedy action of Haarnoja et al. The density may have
        its maximum elsewhere, even at both bounds.
        """
        return self._squash(self._base.mean)

    def log_prob(self, action: tf.Tensor) -> tf.Tensor:
        """Return log densities, summed over the event; finite at the bounds, too."""
        unit = (action - self._low) / self._half_range - 1
        x = tf.math.atanh(tf.clip_by_value(unit, -_BELOW_ONE, _BELOW_ONE))
        return self._base.log_prob(x) - self._sum(self._log_det(x))

    def contains(self, action: tf.Tensor) -> tf.Tensor:
        """Return whether actions are within the bounds, bool ``[...]``."""
        outside = (action < self._low) | (action > self._high)
        return event.all(~outside, self._event_ndims)

    def entropy(self) -> tf.Tensor:
        """Return the entropy in nats, summed over the event, f32 ``[...]``.

        It is the entropy of x plus the expected log-determinant. The latter has no
        closed form: it is a sum over 32 evenly spaced nodes within 5 std. Its error is
        below 2e-5 up to a std of 3, and below 2e-3 up to 5. (Gauss-Hermite with 32
        nodes has errors of 3e-3 and 3e-2, because the integrand bends sharply at 0.)
        """
        mean, std = (tf.expand_dims(x, -1) for x in (self._base.mean, self._base.std))
        log_det = self._log_det(mean + std * _NODES, self._half_range[..., np.newaxis])
        expected = tf.reduce_sum(_WEIGHTS * log_det, -1)
        return self._base.entropy() + self._sum(expected)

    def kl(self, other: TanhNormal) -> tf.Tensor:
        """Return KL(self || other) in nats for equal bounds, f32 ``[...]``.

        It is the KL of the normals, because the same bijection does not change a KL.
        """
        return self._base.kl(other._base)

    @property
    def _inside(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest action: 2^-24 of half the range from the bounds, or the
        next float32 if that is further. (A denormal float would be flushed to 0.)"""
        step = self._half_range * np.float32(1 - _BELOW_ONE)
        lowest = np.maximum(np.nextafter(self._low, self._high), self._low + step)
        highest = np.minimum(np.nextafter(self._high, self._low), self._high - step)
        return lowest, highest

    @property
    def _half_range(self) -> np.ndarray:
        return np.asarray(self._high / 2 - self._low / 2)

    def _squash(self, x: tf.Tensor) -> tf.Tensor:
        action = (tf.tanh(x) + 1) * self._half_range + self._low
        return tf.clip_by_value(action, *self._inside)

    def _log_det(self, x: tf.Tensor, half_range: np.ndarray | None = None) -> tf.Tensor:
        """log(d action / d x) = log(half range) + 2 (log 2 - x - softplus(-2x))."""
        half_range = self._half_range if half_range is None else half_range
        slope = 2 * (math.log(2) - x - tf.math.softplus(-2 * x))
        return slope + np.log(half_range)

    def _sum(self, x: tf.Tensor) -> tf.Tensor:
        return event.sum(x, self._event_ndims)
