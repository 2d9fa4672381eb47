"""Normalization of what is learned from a replay: its settings and its statistics.

Statistics change with every step that is collected; what is stored stays raw and is
normalized when it is learned from, by the newest statistics. So networks and their
targets always see the same observation alike.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import gymnasium
import keras
import numpy as np
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.config import number, option
from tfagents_batch.graph.inputs import Inputs
from tfagents_batch.metrics import Metrics
from tfagents_batch.nn.normalizers import (
    ObservationNormalizer,
    RewardKind,
    RewardNormalizer,
)
from tfagents_batch.ops import returns
from tfagents_batch.types import Trajectory


@dataclasses.dataclass(frozen=True)
class NormalizationSettings:
    """Settings of normalization; those of on-policy algorithms are on by default."""

    normalize_observation: bool = option(
        False,
        "normalize observations by a running mean and standard deviation",
        group="normalization",
    )
    observation_clip: float = number(
        10.0,
        "largest magnitude of a normalized observation",
        above=0,
        group="normalization",
    )
    normalize_return: RewardKind = option(
        False,
        "divide rewards by the std of returns (true) or of rewards (per_step), then "
        "clip them; clip: only clip them; false: leave them",
        group="normalization",
    )
    reward_clip: float = number(
        10.0,
        "largest magnitude of a reward, unless normalize_return is false",
        above=0,
        group="normalization",
    )

    # Settings that change the meaning of weights; they are in ``OF_AGENT``.
    OF_NORMALIZATION: ClassVar[tuple[str, ...]] = (
        "normalize_observation",
        "normalize_return",
    )

    def largest_reward(self, usual: float) -> float:
        """Return the magnitude of a reward above which values must be wrong."""
        return max(usual, self.reward_clip) if self.normalize_return else usual

    def observations(
        self, space: gymnasium.Space, integers: bool
    ) -> ObservationNormalizer | None:
        """Return a normalizer for a policy, None if it is off.

        ``integers`` is false for a user's network, which may look them up in a table.
        """
        if not self.normalize_observation:
            return None
        clip = Inputs(self).observation_clip
        acting = getattr(self, "actor_keys", ())
        return ObservationNormalizer(space, clip, integers=integers, acting=acting)


class Normalizers(tf.Module):
    """Statistics of observations and rewards, and what they make of a trajectory.

    Args:
      inputs: the settings, as inputs of a program.
      observations: normalizer of the policy, or None.
      streams: number of environments, whose running returns are kept here; 0 if the
        policy records them in ``behavior["return"]``.
    """

    def __init__(
        self, inputs: Inputs, observations: ObservationNormalizer | None, streams: int
    ):
        super().__init__()
        self._inputs, self._observations = inputs, observations
        self._rewards: RewardNormalizer | None = None
        self._return: keras.Variable | None = None
        if kind := inputs.normalize_return:
            self._rewards = RewardNormalizer(kind, inputs.reward_clip)
            if kind is True and streams:
                zeros = np.zeros([streams], np.float32)
                self._return = keras.Variable(zeros, dtype="float32", trainable=False)

    def observe(self, trajectory: Trajectory, ok: tf.Tensor | bool = True) -> None:
        """Add all that was collected, ``[T, B]``, unless it is void: ``ok`` false.

        Trajectories follow each other: the last step of one is the first of the next.
        """
        if self._observations is not None:
            seen = nest.map(lambda x: x[:-1], trajectory.steps.observation)
            self._observations.update(seen, trajectory.counted & ok)
        if self._rewards is not None:
            before = trajectory.behavior.get("return")
            if self._return is not None:
                before = self._running(self._return, trajectory, ok)
            mask, gamma = trajectory.mask & ok, self._inputs.gamma
            self._rewards.add(trajectory.reward, before, gamma, mask)

    def normalized(self, trajectory: Trajectory) -> tuple[Trajectory, Metrics]:
        """Return a trajectory or windows as they are learned from, and metrics."""
        steps, mask, metrics = trajectory.steps, trajectory.mask, {}
        if self._observations is not None:
            seen = self._observations(steps.observation)
            if self._inputs.histograms:
                raw, made = nest.map(lambda x: x[:-1], (steps.observation, seen))
                metrics |= self._observations.metrics(raw, made, mask)
            steps = steps._replace(observation=seen)
        if self._rewards is not None:
            metrics |= self._rewards.metrics(trajectory.reward, mask)
            steps = steps._replace(reward=self._rewards(steps.reward))
        return trajectory._replace(steps=steps), metrics

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return the statistics of rewards; a policy saves those of observations."""
        named: dict[str, keras.Variable] = {}
        if self._rewards is not None:
            statistics = self._rewards.named_variables()
            named |= nest.prefixed("statistics/returns", statistics)
        if self._return is not None:
            named["run/return"] = self._return
        return named

    def _running(
        self, kept: keras.Variable, trajectory: Trajectory, ok: tf.Tensor | bool
    ) -> tf.Tensor:
        """Return the discounted return at each step with an action, f32 ``[T, B]``.

        R_t = r_t + gamma R_{t-1}, and 0 where an episode starts. The last one is kept
        for the next trajectory.
        """
        steps, start = trajectory.steps, kept.value
        term = tf.concat([start[tf.newaxis], steps.reward[1:]], 0)
        term = tf.where(steps.first, 0.0, term)
        factor = tf.where(steps.first, 0.0, tf.identity(self._inputs.gamma))
        backward = (tf.reverse(x, [0]) for x in (factor, term))
        reached = tf.reverse(returns.reverse_linear(*backward), [0])
        kept.assign(tf.where(ok, reached[-1], start))
        return reached[:-1]


def create(inputs: Any, policy: Any, streams: int) -> Normalizers | None:
    """Return the normalizers of an algorithm; None if it does not normalize."""
    on = getattr(inputs, "normalize_observation", False)
    if not (on or getattr(inputs, "normalize_return", False)):
        return None
    return Normalizers(inputs, policy.observations, streams)
