"""Normalizers of observations and of rewards.

Statistics change only on request, so acting and learning use the same statistics for
a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import gymnasium
import keras
import numpy as np
import tensorflow as tf

from tfagents_batch import encoding, nest, spaces
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn.encoder import ACTION_MASK
from tfagents_batch.ops import histograms, masked
from tfagents_batch.types import Nest, Trajectory

RewardKind = Literal[True, False, "per_step", "clip"]
FLOOR = 1e-4  # lower bound of a standard deviation
# Samples are equal up to rounding if their standard deviation is at most this share of
# their mean, or at most a number by which float32 cannot divide.
EQUAL, TINY = 1e-6, 1e-30


class Moments(tf.Module):
    """Mean and variance of a stream of samples.

    Sums are float64: in float32 the second moment is lost after about 2**24 samples.

    Attributes:
      count: f64 ``[]``, number of samples.
      mean: f64 with the shape of a sample.
      sum_of_squares: likewise, sum of squared differences from the mean.
    """

    def __init__(self, shape):
        super().__init__()
        self.count, self.mean, self.sum_of_squares = (
            keras.Variable(np.zeros(size), dtype="float64", trainable=False)
            for size in ((), shape, shape)
        )

    def update(self, x: tf.Tensor, mask: tf.Tensor) -> None:
        """Add samples (Chan et al. 1979: parallel form of Welford's update).

        They are of any real dtype, ``[..., *shape]``; the mask, ``[...]``, is true for
        valid ones.
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

        ``floor`` is its lower bound, and ``epsilon`` is added to the variance.
        """
        std = tf.sqrt(tf.maximum(self._variance() + epsilon, floor**2))
        enough = self.count.value > 1
        return tf.cast(tf.where(enough, std, tf.ones_like(std)), tf.float32)

    def scale(self, epsilon: float = 0.0) -> tf.Tensor:
        """Return the divisor, f32 ``shape``: ``std``, or 1 where samples are equal.

        Without an epsilon it has no absolute floor: it is proportional to the samples.
        """
        least = tf.maximum(EQUAL * tf.abs(self.mean.value), TINY)
        equal = self._variance() <= tf.square(least)
        return tf.where(equal, 1.0, self.std(0.0, epsilon))

    def _variance(self) -> tf.Tensor:
        return self.sum_of_squares.value / tf.maximum(self.count.value - 1, 1)

    def named_variables(self) -> dict[str, keras.Variable]:
        names = "count", "mean", "sum_of_squares"
        return {name: getattr(self, name) for name in names}


class ObservationNormalizer(tf.Module):
    """Normalizer of the numbers of observations: mean 0, variance 1, clipped.

    Images, flags, Discrete and MultiDiscrete and the action mask pass through
    unchanged; see ``encoding.kind``.

    Args:
      space: observation space of one environment.
      clip: largest magnitude of a normalized number.
      floor, epsilon: see ``Moments.std``.
      enabled: if false, observations pass through and statistics do not change.
      integers: if false, integers pass through.
      acting: entries of a Dict that are needed to act; none: all. Statistics of the
        others have names of their own, and an observation may lack them.
    """

    def __init__(
        self,
        space: gymnasium.Space,
        clip: float = 10.0,
        floor: float = FLOOR,
        epsilon: float = 0.0,
        enabled: bool = True,
        integers: bool = True,
        acting: Sequence[str] = (),
    ):
        super().__init__()
        self.clip, self.enabled, self._bounds = clip, enabled, (floor, epsilon)
        self._keys = [
            leaf.path[0] if leaf.path else "" for leaf in spaces.leaves(space)
        ]
        self._acting = acting or self._keys
        kinds = {"floats", "integers"} if integers else {"floats"}
        self.moments = [
            Moments(leaf.shape)
            if encoding.kind(leaf.space) in kinds and ACTION_MASK not in leaf.path
            else None
            for leaf in spaces.leaves(space)
        ]

    def __call__(self, observation: Nest) -> Nest:
        """Normalize ``[..., *leaf]`` observations with the current statistics."""
        if not self.enabled:
            return observation

        def normalize(x, moments):
            if moments is None:
                return x
            mean = moments.mean.value
            if not x.dtype.is_floating:
                # float32 does not have every integer, so these are shifted before.
                whole = tf.round(mean)
                x, mean = tf.cast(x, tf.int64) - tf.cast(whole, tf.int64), mean - whole
            x = tf.cast(x, tf.float32) - tf.cast(mean, tf.float32)
            x = x / moments.std(*self._bounds)
            return tf.clip_by_value(x, -self.clip, self.clip)

        leaves = zip(nest.flatten(observation), self._known(observation), strict=True)
        return tf.nest.pack_sequence_as(
            observation, [normalize(x, moments) for x, moments in leaves]
        )

    def _known(self, observation: Nest) -> list[Moments | None]:
        """Return the moments of the leaves that an observation has.

        Entries that were not there in training have none; the network ignores them.
        """
        if not isinstance(observation, dict):
            return self.moments
        found: list[Moments | None] = []
        for key in sorted(observation):
            own = zip(self._keys, self.moments, strict=True)
            known = [moments for name, moments in own if name == key]
            found += known or [None] * len(nest.flatten(observation[key]))
        return found

    def normalized(self, observation: Nest) -> list[tf.Tensor]:
        """Return the leaves of an observation that are normalized, as f32."""
        leaves = zip(nest.flatten(observation), self.moments, strict=True)
        return [tf.cast(x, tf.float32) for x, moments in leaves if moments is not None]

    def metrics(self, raw: Nest, seen: Nest, mask: tf.Tensor) -> Metrics:
        """Return the mean of raw observations, the share clipped, and histograms.

        Observations are ``[T, B, ...]``; ``seen`` are normalized. There are none if no
        leaf is normalized.
        """
        used = [moments for moments in self.moments if moments is not None]
        if not (self.enabled and used):
            return {}

        def flat(observation):
            leaves = self.normalized(observation)
            return tf.concat([tf.reshape(x, [*mask.shape, -1]) for x in leaves], -1)

        rows = [histograms.rows(x, mask) for x in self.normalized(seen)]
        means = [tf.convert_to_tensor(moments.mean.value) for moments in used]
        stds = [moments.std(*self._bounds) for moments in used]
        return {
            "normalize/observation": masked.mean(flat(raw), mask),
            "normalize/observation_clipped": _share(flat(seen), self.clip, mask),
            "histogram/observation": tf.concat(rows, 0),
            "histogram/observation_mean": histograms.tensors(means),
            "histogram/observation_std": histograms.tensors(stds),
        }

    def update(self, observation: Nest, mask: tf.Tensor) -> None:
        """Add the ``[..., *leaf]`` observations where ``mask`` to the statistics."""
        if not self.enabled:
            return
        for x, moments in zip(nest.flatten(observation), self.moments, strict=True):
            if moments is not None:
                moments.update(x, mask)

    def named_variables(self, acting: bool = True) -> dict[str, keras.Variable]:
        """Return the statistics of what is needed to act, or of all other entries."""
        pairs = list(zip(self._keys, self.moments, strict=True))
        chosen = [x for x in pairs if (x[0] in self._acting) == acting]
        variables = {}
        for index, (key, moments) in enumerate(chosen):
            if moments is not None:
                # Entries of critics alone may differ between a run and its start.
                name = str(index) if acting else f"{key}/{index}"
                variables |= nest.prefixed(name, moments.named_variables())
        return variables


class RewardNormalizer(tf.Module):
    """Normalizer that divides rewards by a standard deviation, or only clips them.

    The mean is not subtracted, so rewards keep their sign.

    Args:
      kind: True to divide by the std of running discounted returns, "per_step" by that
        of the rewards themselves, as batch-ppo does (sparse rewards become large),
        "clip" to only clip them, False to leave rewards unchanged.
      clip: largest magnitude of a scaled reward.
      epsilon: see ``Moments.std``.
    """

    def __init__(self, kind: RewardKind, clip: float = 10.0, epsilon: float = 0.0):
        super().__init__()
        self.kind, self.clip, self._epsilon = kind, clip, epsilon
        self.moments = Moments(())

    def update(self, trajectory: Trajectory, gamma: float) -> None:
        """Add all rewards of a trajectory to the statistics.

        Call it before the rewards are learned from; acting does not use them.
        ``behavior["return"]`` is the running return, discounted by gamma, at each step
        with an action.
        """
        before, mask = trajectory.behavior["return"], trajectory.mask
        self.add(trajectory.reward, before, gamma, mask)

    def add(self, reward: tf.Tensor, before: Nest, gamma: float, mask: tf.Tensor):
        """Add rewards f32 ``[T, B]``; ``before`` is as ``behavior["return"]``, or None.

        Only the kind True uses ``before``.
        """
        if self.kind == "per_step":
            self.moments.update(reward, mask)
        elif self.kind is True:
            self.moments.update(gamma * before + reward, mask)

    def __call__(self, reward: tf.Tensor) -> tf.Tensor:
        """Scale f32 rewards with the current statistics."""
        if not self.kind:
            return reward
        # Without statistics, as with "clip", the scale is 1.
        scale = self.moments.scale(self._epsilon)
        return tf.clip_by_value(reward / scale, -self.clip, self.clip)

    def metrics(self, reward: tf.Tensor, mask: tf.Tensor) -> Metrics:
        """Return the mean of raw and of scaled rewards ``[T, B]``, the share clipped,
        and the mean and the divisor from the statistics."""
        scaled = self(reward)
        metrics = {
            "normalize/reward": masked.mean(reward, mask),
            "normalize/reward_scaled": masked.mean(scaled, mask),
        }
        if self.kind:
            metrics["normalize/reward_clipped"] = _share(scaled, self.clip, mask)
        if self.kind in (True, "per_step"):
            mean = tf.cast(self.moments.mean.value, tf.float32)
            metrics |= {
                "normalize/reward_mean": mean,
                "normalize/reward_std": self.moments.scale(self._epsilon),
            }
        return metrics

    def named_variables(self) -> dict[str, keras.Variable]:
        return self.moments.named_variables()


def _share(x: tf.Tensor, clip: float, mask: tf.Tensor) -> tf.Tensor:
    """Return the share of valid numbers ``[T, B, ...]`` that were clipped."""
    return masked.mean(tf.cast(tf.abs(x) >= clip, tf.float32), mask)
