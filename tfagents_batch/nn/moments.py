"""Streaming mean and variance, and the normalisers built on them.

Sums are float64: float32 ones lose the second moment after about 2**24 samples.
Statistics advance only on request, so a batch is acted on and learned from with
the same ones.
"""

from __future__ import annotations

from typing import Literal

import gymnasium
import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch import nest, spaces
from tfagents_batch.interfaces import Metrics
from tfagents_batch.nn.encoder import ACTION_MASK
from tfagents_batch.ops import histograms, masked
from tfagents_batch.types import Nest, Trajectory

RewardKind = Literal[True, False, "per_step"]
FLOOR = 1e-4  # lower bound of a standard deviation
EQUAL = 1e-12  # a variance of samples that are equal but for rounding


class Moments(tf.Module):
    """Mean and variance of a stream of samples.

    Args:
      shape: of one sample.

    Attributes:
      count: f64 ``[]``; mean: f64 ``shape``; deviation: f64 ``shape``, the sum of
        squared deviations from the mean.
    """

    def __init__(self, shape):
        super().__init__()
        self.count, self.mean, self.deviation = (
            keras.Variable(np.zeros(each), dtype="float64", trainable=False)
            for each in ((), shape, shape)
        )

    def update(self, x: tf.Tensor, mask: tf.Tensor) -> None:
        """Merge samples (Chan et al. 1979: parallel form of Welford's update).

        Args:
          x: ``[..., *shape]`` of any real dtype.
          mask: bool ``[...]``, samples that count.
        """
        lead = len(mask.shape)
        axes = list(range(lead))
        rank = len(x.shape) - lead
        weight = tf.reshape(tf.cast(mask, tf.float64), [*mask.shape, *[1] * rank])
        # Select before multiplying: 0 * nan is nan.
        x = tf.where(weight > 0, tf.cast(x, tf.float64), 0)
        count = tf.reduce_sum(weight)
        mean = tf.math.divide_no_nan(tf.reduce_sum(x, axes), count)
        deviation = tf.reduce_sum(weight * tf.square(x - mean), axes)
        before = self.count.value
        total = before + count
        delta = mean - self.mean.value
        share = tf.math.divide_no_nan(count, total)
        between = tf.square(delta) * before * share
        self.deviation.assign(self.deviation.value + deviation + between)
        self.mean.assign(self.mean.value + delta * share)
        self.count.assign(total)

    def std(self, floor: float = FLOOR, epsilon: float = 0.0) -> tf.Tensor:
        """f32 ``shape``: sample standard deviation; 1 before there are two samples.

        Args:
          floor: lower bound of the standard deviation.
          epsilon: added to the variance.
        """
        count = self.count.value
        variance = self.deviation.value / tf.maximum(count - 1, 1)
        std = tf.sqrt(tf.maximum(variance + epsilon, floor**2))
        return tf.cast(tf.where(count > 1, std, tf.ones_like(std)), tf.float32)

    def scale(self, floor: float = FLOOR, epsilon: float = 0.0) -> tf.Tensor:
        """f32 ``shape``: what to divide by. ``std``; 1 where samples hardly differ."""
        variance = self.deviation.value / tf.maximum(self.count.value - 1, 1)
        return tf.where(variance < EQUAL, 1.0, self.std(floor, epsilon))

    def named_variables(self) -> dict[str, keras.Variable]:
        return {"count": self.count, "mean": self.mean, "deviation": self.deviation}


class ObservationNormalizer(tf.Module):
    """Float leaves of an observation to mean 0, variance 1, clipped.

    Images, integers and the action mask pass through untouched.

    Args:
      space: observation space of one environment.
      clip: largest magnitude that is passed on.
      floor, epsilon: of the deviations, see ``Moments.std``.
      enabled: if false, observations pass through and statistics do not advance.
    """

    def __init__(
        self,
        space: gymnasium.Space,
        clip: float = 10.0,
        floor: float = FLOOR,
        epsilon: float = 0.0,
        enabled: bool = True,
    ):
        super().__init__()
        self.clip = clip
        self.enabled = enabled
        self._bounds = floor, epsilon
        self.moments = [
            Moments(leaf.shape) if _is_normalized(leaf) else None
            for leaf in spaces.leaves(space)
        ]

    def __call__(self, observation: Nest) -> Nest:
        """Normalise ``[..., *leaf]`` observations with the present statistics."""
        if not self.enabled:
            return observation

        def normalize(x, moments):
            if moments is None:
                return x
            std = moments.std(*self._bounds)
            x = tf.cast(x, tf.float32)
            x = (x - tf.cast(moments.mean.value, tf.float32)) / std
            return tf.clip_by_value(x, -self.clip, self.clip)

        leaves = zip(nest.flatten(observation), self.moments, strict=True)
        return tf.nest.pack_sequence_as(
            observation, [normalize(x, moments) for x, moments in leaves]
        )

    def normalized(self, observation: Nest) -> list[tf.Tensor]:
        """Those leaves of an observation that are, as f32."""
        leaves = zip(nest.flatten(observation), self.moments, strict=True)
        return [tf.cast(x, tf.float32) for x, moments in leaves if moments is not None]

    def metrics(self, raw: Nest, seen: Nest, mask: tf.Tensor) -> Metrics:
        """Mean of the raw observations, and the share of what is seen that was clipped;
        histograms of what is seen, of means and of deviations. Nothing if nothing is
        normalised.

        Args:
          raw: observations ``[T, B, ...]``.
          seen: normalised ones.
          mask: bool ``[T, B]``.
        """
        used = [moments for moments in self.moments if moments is not None]
        if not (self.enabled and used):
            return {}
        flat = [tf.reshape(x, [*mask.shape, -1]) for x in self.normalized(raw)]
        kept = [histograms.rows(x, mask) for x in self.normalized(seen)]
        shown = [tf.reshape(x, [*mask.shape, -1]) for x in self.normalized(seen)]
        means = [tf.convert_to_tensor(moments.mean.value) for moments in used]
        return {
            "normalize/observation": masked.mean(tf.concat(flat, -1), mask),
            "normalize/observation_clipped": _share(
                tf.concat(shown, -1), self.clip, mask
            ),
            "normalize/observation_seen": tf.concat(kept, 0),
            "normalize/observation_mean": histograms.tensors(means),
            "normalize/observation_std": histograms.tensors(
                [moments.std(*self._bounds) for moments in used]
            ),
        }

    def update(self, observation: Nest, mask: tf.Tensor) -> None:
        """Advance the statistics by ``[..., *leaf]`` observations where ``mask``."""
        if not self.enabled:
            return
        for x, moments in zip(nest.flatten(observation), self.moments, strict=True):
            if moments is not None:
                moments.update(x, mask)

    def named_variables(self) -> dict[str, keras.Variable]:
        return {
            f"{index}/{name}": variable
            for index, moments in enumerate(self.moments)
            if moments is not None
            for name, variable in moments.named_variables().items()
        }


class RewardNormalizer(tf.Module):
    """Rewards in units of a deviation; they keep their sign, and are clipped.

    Args:
      kind: True for the deviation of running discounted returns, "per_step" for that
        of the rewards themselves, as batch-ppo has it (a constant reward has none, and
        sparse rewards come out large), False for rewards as they are.
      clip: largest magnitude that is passed on.
      floor, epsilon: see ``Moments.std``.
    """

    def __init__(
        self,
        kind: RewardKind,
        clip: float = 10.0,
        floor: float = FLOOR,
        epsilon: float = 0.0,
    ):
        super().__init__()
        self.kind = kind
        self.clip = clip
        self._bounds = floor, epsilon
        self.moments = Moments(())

    def update(self, trajectory: Trajectory, gamma: float) -> None:
        """Add the rewards of a trajectory, the last one too, to the statistics.

        Acting does not read them, so it is done before rewards are learned from.

        Args:
          trajectory: ``behavior["return"]`` is the running discounted return of each
            step that was acted on.
          gamma: the discount factor of that return.
        """
        if self.kind == "per_step":
            self.moments.update(trajectory.reward, trajectory.mask)
        elif self.kind:
            reached = gamma * trajectory.behavior["return"] + trajectory.reward
            self.moments.update(reached, trajectory.mask)

    def __call__(self, reward: tf.Tensor) -> tf.Tensor:
        """Scale f32 rewards with the present statistics."""
        if not self.kind:
            return reward
        scale = self.moments.scale(*self._bounds)
        return tf.clip_by_value(reward / scale, -self.clip, self.clip)

    def metrics(self, reward: tf.Tensor, mask: tf.Tensor) -> Metrics:
        """Means of rewards ``[T, B]``, raw and scaled, and the share that was clipped;
        mean of what is earned, and the deviation that rewards are divided by."""
        scaled = self(reward)
        metrics = {
            "normalize/reward": masked.mean(reward, mask),
            "normalize/reward_scaled": masked.mean(scaled, mask),
        }
        if self.kind:
            mean = tf.cast(self.moments.mean.value, tf.float32)
            metrics |= {
                "normalize/reward_mean": mean,
                "normalize/reward_std": self.moments.scale(*self._bounds),
                "normalize/reward_clipped": _share(scaled, self.clip, mask),
            }
        return metrics

    def named_variables(self) -> dict[str, keras.Variable]:
        return self.moments.named_variables()


def _share(x: tf.Tensor, clip: float, mask: tf.Tensor) -> tf.Tensor:
    """f32 ``[]``: of the numbers ``[T, B, ...]`` that count, those at the bounds."""
    return masked.mean(tf.cast(tf.abs(x) >= clip, tf.float32), mask)


def _is_normalized(leaf: spaces.Leaf) -> bool:
    return (
        isinstance(leaf.space, gs.Box)
        and ACTION_MASK not in leaf.path
        and leaf.dtype.startswith("float")
    )
