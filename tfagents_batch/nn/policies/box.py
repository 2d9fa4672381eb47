"""Policies of bounded Box actions: stochastic ones, and deterministic ones with noise.

Both take uniform random actions during the warm-up.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.nn.actor import Actor
from tfagents_batch.nn.bounds import Bounds
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.policies.base import NetworkPolicy
from tfagents_batch.ops import constants
from tfagents_batch.ops.distributions.gaussian import TanhNormal
from tfagents_batch.schedules import Schedule
from tfagents_batch.types import Nest, TimeStep

Exploration = Literal["gaussian", "ou"]
_THETA = 0.15  # of Ornstein-Uhlenbeck noise, as in Lillicrap et al. 2016
_LOG_STD = (-20.0, 2.0)  # bounds of a log standard deviation, as in Haarnoja et al.


class Noise(NamedTuple):
    """Random numbers of an action, f32 ``[..., A]``: normal, and uniform in [-1, 1]."""

    normal: tf.Tensor
    uniform: tf.Tensor


class _BoxPolicy(NetworkPolicy):
    """Base of the policies of this module; see ``interfaces.Policy``.

    Args:
      network: actor.
      bounds: of the actions.
      warmup: environment steps with random actions only.
    """

    def __init__(self, network: Actor, bounds: Bounds, warmup: int):
        super().__init__(network)
        self.bounds, self._warmup = bounds, warmup

    def noise(self, shape, seed) -> Noise:
        """Draw the random numbers of a rollout."""
        shape = [*shape, self.bounds.size]
        return Noise(
            seeds.normal(shape, seeds.key(seed, "action")),
            2 * seeds.uniform(shape, seeds.key(seed, "explore")) - 1,
        )

    def _warm(self, unit: tf.Tensor, noise: Noise, step) -> tf.Tensor:
        """Return the action of a step of training, from one in [-1, 1]."""
        return self.bounds.action(tf.where(step < self._warmup, noise.uniform, unit))


class SquashedNormal(_BoxPolicy):
    """Normal distribution, squashed into the bounds by tanh (SAC).

    The actor's outputs are ``mean`` and ``log_std``, A each.
    """

    def distribution(self, timestep: TimeStep) -> TanhNormal:
        """Return the distribution of actions scaled to [-1, 1], ``[N, A]``."""
        outputs, _ = self.network(timestep)
        log_std = tf.clip_by_value(outputs["log_std"], *_LOG_STD)
        return TanhNormal(outputs["mean"], tf.exp(log_std), -1.0, 1.0)

    def soft(self, timestep: TimeStep, critics: Critics, key: tf.Tensor) -> tuple:
        """Return min_k Q_k and ln pi of an action drawn in each row, f32 ``[N]`` each.

        Args:
          timestep: ``[N, ...]``.
          critics: of given actions.
          key: int32 ``[2]``.
        """
        policy = self.distribution(timestep)
        shape = [timestep.first.shape[0], self.bounds.size]
        noise = seeds.normal(shape, key)
        action, log_prob = policy.sample_with_log_prob(noise)
        return tf.reduce_min(critics(timestep, action), 0), log_prob

    def values(self, critics: Critics, timestep: TimeStep, action) -> tf.Tensor:
        """Return Q of the actions taken, f32 ``[K, N]``."""
        return critics(timestep, self.bounds.unit(action))

    def act(self, timestep: TimeStep, state: Nest, noise: Noise, step, explore: bool):
        """Sample actions, or take the squashed means."""
        policy = self.distribution(timestep)
        if not explore:
            return self.bounds.action(policy.mode()), {}, state
        return self._warm(policy.sample(noise.normal), noise, step), {}, state


class Deterministic(_BoxPolicy):
    """Deterministic actions with added noise (DDPG, TD3).

    The actor's output is ``action``; tanh squashes it into the bounds.

    Args:
      network, bounds, warmup: as for all policies.
      scale: schedule of the noise's scale, in units of half the range of an action.
      exploration: independent normal noise ("gaussian"), or Ornstein-Uhlenbeck noise
        x <- (1 - theta) x + scale N(0, 1) with theta 0.15 ("ou"; Lillicrap et al. 2016,
        arXiv:1509.02971, section 7), which starts at 0 in every episode.
    """

    def __init__(
        self,
        network: Actor,
        bounds: Bounds,
        warmup: int,
        scale: Schedule,
        exploration: Exploration,
    ):
        super().__init__(network, bounds, warmup)
        self._scale, self._correlated = scale, exploration == "ou"

    def initial_state(self, batch: int) -> Nest:
        """Return the noise before the first step, ``[batch, A]``; ``()`` if normal."""
        return constants.zeros([batch, self.bounds.size]) if self._correlated else ()

    def unit(self, timestep: TimeStep, network: Actor | None = None) -> tf.Tensor:
        """Return actions without noise, scaled to [-1, 1], f32 ``[N, A]``.

        Args:
          timestep: ``[N, ...]``.
          network: another actor of the same kind.
        """
        return tf.tanh((network or self.network)(timestep)[0]["action"])

    def scale(self, step) -> tf.Tensor:
        """Return the scale of the noise, f32 ``[]``."""
        return self._scale(step)

    def act(self, timestep: TimeStep, state: Nest, noise: Noise, step, explore: bool):
        """Return the actor's actions, with noise if ``explore``."""
        unit = self.unit(timestep)
        if not explore:
            return self.bounds.action(unit), {}, state
        added = self.scale(step) * noise.normal
        if self._correlated:
            before = tf.where(timestep.first[:, tf.newaxis], 0.0, state)
            state = added = (1 - _THETA) * before + added
        unit = tf.clip_by_value(unit + added, -1.0, 1.0)
        return self._warm(unit, noise, step), {}, state
