"""Distributions over Box actions: DiagNormal, and TanhNormal inside bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.ops.distributions import event

_LOG_2PI = math.log(2 * math.pi)
# Largest float32 below 1. Its atanh, 8.66, is as far as an action at a bound is
# taken back.
_BELOW_ONE = 1 - 2.0**-24
_NODES = np.linspace(-5, 5, 32, dtype=np.float32)
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.sum(np.exp(-(_NODES**2) / 2))


def normal_noise(shape: Sequence[int], seed) -> tf.Tensor:
    """f32 ``shape``, standard normal."""
    return seeds.normal(shape, seeds.key(seed, "action"))


class DiagNormal:
    """Independent normals.

    Attributes:
      mean, std: f32 ``[..., *event]``.
    """

    def __init__(self, mean: tf.Tensor, std: tf.Tensor, event_ndims: int = 1):
        """
        Args:
          mean: f32 ``[..., *event]``.
          std: f32, greater than 0, broadcast to the shape of ``mean``.
          event_ndims: how many trailing axes are one action.
        """
        self.mean = mean
        self.std = std if std.shape == mean.shape else std + tf.zeros_like(mean)
        self._event_ndims = event_ndims

    @property
    def params(self) -> dict[str, tf.Tensor]:
        return {"mean": self.mean, "std": self.std}

    def with_params(self, params: dict[str, tf.Tensor]) -> DiagNormal:
        return DiagNormal(params["mean"], params["std"], self._event_ndims)

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """f32 ``[..., *event]``, differentiable in mean and std."""
        return self.mean + self.std * noise

    def mode(self) -> tf.Tensor:
        """f32 ``[..., *event]``."""
        return self.mean

    def log_prob(self, action: tf.Tensor) -> tf.Tensor:
        """f32 ``[...]``, summed over the event."""
        distance = tf.square((action - self.mean) / self.std)
        return -self._sum(0.5 * (distance + _LOG_2PI) + tf.math.log(self.std))

    def entropy(self) -> tf.Tensor:
        """f32 ``[...]``, in nats, summed over the event."""
        return self._sum(0.5 * (1 + _LOG_2PI) + tf.math.log(self.std))

    def kl(self, other: DiagNormal) -> tf.Tensor:
        """f32 ``[...]``, KL(self || other) in nats, summed over the event."""
        ratio = self.std / other.std
        distance = tf.square((self.mean - other.mean) / other.std)
        return self._sum(0.5 * (tf.square(ratio) + distance - 1) - tf.math.log(ratio))

    def _sum(self, x: tf.Tensor) -> tf.Tensor:
        return event.sum(x, self._event_ndims)


class TanhNormal:
    """Independent normals squashed into bounds: low + (high - low) (tanh(x) + 1) / 2.

    Haarnoja et al. 2018 (arXiv:1801.01290), appendix C.
    """

    def __init__(
        self,
        mean: tf.Tensor,
        std: tf.Tensor,
        low: np.ndarray | float,
        high: np.ndarray | float,
        event_ndims: int = 1,
    ):
        """
        Args:
          mean, std: f32 ``[..., *event]``, of x, as for DiagNormal.
          low, high: finite, static, broadcast to an action; low < high.
          event_ndims: how many trailing axes are one action.
        """
        self._base = DiagNormal(mean, std, event_ndims)
        self._low, self._high = np.float32(low), np.float32(high)
        self._event_ndims = event_ndims

    @property
    def params(self) -> dict[str, tf.Tensor]:
        """mean and std of x."""
        return self._base.params

    def with_params(self, params: dict[str, tf.Tensor]) -> TanhNormal:
        mean, std = params["mean"], params["std"]
        return TanhNormal(mean, std, self._low, self._high, self._event_ndims)

    def sample(self, noise: tf.Tensor) -> tf.Tensor:
        """f32 ``[..., *event]``, strictly inside; differentiable in mean and std."""
        return self._squash(self._base.sample(noise))

    def mode(self) -> tf.Tensor:
        """f32 ``[..., *event]``, the squashed mean.

        The median, and the greedy action of Haarnoja et al.; the density itself may
        peak elsewhere, even at both bounds.
        """
        return self._squash(self._base.mean)

    def log_prob(self, action: tf.Tensor) -> tf.Tensor:
        """f32 ``[...]``, summed over the event; finite at the bounds, too."""
        unit = (action - self._low) / self._half_range - 1
        x = tf.math.atanh(tf.clip_by_value(unit, -_BELOW_ONE, _BELOW_ONE))
        return self._base.log_prob(x) - self._sum(self._log_det(x))

    def entropy(self) -> tf.Tensor:
        """f32 ``[...]``, in nats, summed over the event.

        Entropy of x plus the expected log-determinant. That has no closed form: it
        is a sum over 32 evenly spaced nodes within 5 deviations, off by less than
        2e-5 up to a std of 3 and 2e-3 up to 5. (Gauss-Hermite with as many nodes is
        off by 3e-3 and 3e-2 there: the integrand bends sharply at 0.)
        """
        mean, std = self._base.mean[..., tf.newaxis], self._base.std[..., tf.newaxis]
        log_det = self._log_det(mean + std * _NODES, self._half_range[..., np.newaxis])
        expected = tf.reduce_sum(_WEIGHTS * log_det, -1)
        return self._base.entropy() + self._sum(expected)

    def kl(self, other: TanhNormal) -> tf.Tensor:
        """f32 ``[...]``, KL(self || other) in nats, of the same bounds.

        That of the normals: a bijection that both share leaves it unchanged.
        """
        return self._base.kl(other._base)

    @property
    def _inside(self) -> tuple[np.ndarray, np.ndarray]:
        """The outermost actions: 2^-24 of half the range from the bounds, or the next
        float32 if that is further. (Next to 0 it would be flushed to 0.)"""
        step = self._half_range * np.float32(1 - _BELOW_ONE)
        lowest = np.maximum(np.nextafter(self._low, self._high), self._low + step)
        highest = np.minimum(np.nextafter(self._high, self._low), self._high - step)
        return lowest, highest

    @property
    def _half_range(self) -> np.ndarray:
        return np.asarray(self._high / 2 - self._low / 2)

    def _squash(self, x: tf.Tensor) -> tf.Tensor:
        action = self._low + self._half_range * (tf.tanh(x) + 1)
        return tf.clip_by_value(action, *self._inside)

    def _log_det(self, x: tf.Tensor, half_range: np.ndarray | None = None) -> tf.Tensor:
        """log d action / d x = log(half range) + 2 (log 2 - x - softplus(-2x))."""
        half_range = self._half_range if half_range is None else half_range
        slope = 2 * (math.log(2) - x - tf.math.softplus(-2 * x))
        return np.log(half_range) + slope

    def _sum(self, x: tf.Tensor) -> tf.Tensor:
        return event.sum(x, self._event_ndims)
