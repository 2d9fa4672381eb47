"""Policies of bounded Box actions: stochastic ones, and deterministic ones with noise.

Both take uniform random actions during the warm-up.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.errors import UserError
from tfagents_batch.graph import constants
from tfagents_batch.nn.actor import Actor
from tfagents_batch.nn.bounds import Bounds
from tfagents_batch.nn.policies.base import NetworkPolicy
from tfagents_batch.ops.distributions.gaussian import (
    DiagNormal,
    TanhNormal,
    log_upper_tail,
)
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

    They define ``_log_density`` for steps after the warm-up, with actions ``[N, A]``.

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

    def log_density(
        self, timestep: TimeStep, state: Nest, action: tf.Tensor, step
    ) -> tf.Tensor:
        """Return the log density of actions, see ``interfaces.Policy``."""
        low, high = self.bounds.flat
        action = tf.reshape(action, [-1, self.bounds.size])
        log = self._log_density(timestep, state, action, step)
        uniform = -np.sum(np.log(np.float64(high) - low))
        log = tf.where(step < self._warmup, tf.constant(uniform, tf.float32), log)
        outside = tf.reduce_any((action < low) | (action > high), -1)
        return tf.where(outside, -math.inf, log)

    def _warm(self, unit: tf.Tensor, noise: Noise, step) -> tf.Tensor:
        """Return the action of a step of training, from one in [-1, 1]."""
        return self.bounds.action(tf.where(step < self._warmup, noise.uniform, unit))


class SquashedNormal(_BoxPolicy):
    """Normal distribution, squashed into the bounds by tanh (SAC).

    The actor's outputs are ``mean`` and ``log_std``, A each.
    """

    def distribution(self, timestep: TimeStep, low=-1.0, high=1.0) -> TanhNormal:
        """Return the distribution of actions scaled to [low, high], ``[N, A]``."""
        outputs, _ = self.network(timestep)
        log_std = tf.clip_by_value(outputs["log_std"], *_LOG_STD)
        return TanhNormal(outputs["mean"], tf.exp(log_std), low, high)

    def act(self, timestep: TimeStep, state: Nest, noise: Noise, step, explore: bool):
        """Sample actions, or take the squashed means."""
        policy = self.distribution(timestep)
        if not explore:
            return self.bounds.action(policy.mode()), {}, state
        return self._warm(policy.sample(noise.normal), noise, step), {}, state

    def _log_density(self, timestep: TimeStep, state: Nest, action, step) -> tf.Tensor:
        return self.distribution(timestep, *self.bounds.flat).log_prob(action)


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
        noisy = self._unclipped(unit, timestep, state, step).sample(noise.normal)
        if self._correlated:
            state = noisy - unit
        return self._warm(tf.clip_by_value(noisy, -1.0, 1.0), noise, step), {}, state

    def _log_density(self, timestep: TimeStep, state: Nest, action, step) -> tf.Tensor:
        if str(self._scale) == "0":
            raise UserError(
                "the log density of actions is not available without noise: an action "
                "has a probability of 1 and no density; set --algorithm.noise above 0"
            )
        policy = self._unclipped(self.unit(timestep), timestep, state, step)
        low, high = self.bounds.flat
        log = policy.log_prob(self.bounds.unit(action)) - np.log(high / 2 - low / 2)
        # The probabilities of numbers that are clipped to a bound.
        below = log_upper_tail((policy.mean + 1) / policy.std)
        above = log_upper_tail((1 - policy.mean) / policy.std)
        log = tf.where(action <= low, below, tf.where(action >= high, above, log))
        return tf.reduce_sum(tf.where(policy.std > 0, log, math.nan), -1)

    def _unclipped(self, unit: tf.Tensor, timestep: TimeStep, state: Nest, step):
        """Return the distribution of noisy actions before clipping, ``[N, A]``.

        Args:
          unit: actions without noise.
          timestep, state, step: of ``act``.
        """
        if self._correlated:
            before = tf.where(timestep.first[:, tf.newaxis], 0.0, state)
            unit += (1 - _THETA) * before
        return DiagNormal(unit, self.scale(step), event_ndims=0)
