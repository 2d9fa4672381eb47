"""Policy of Discrete actions from logits."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.nn import networks
from tfagents_batch.nn.actor import Actor
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.policies.base import NetworkPolicy
from tfagents_batch.nn.policies.epsilon_greedy import best
from tfagents_batch.ops import masked, td
from tfagents_batch.ops.distributions.categorical import gumbel_noise
from tfagents_batch.types import Nest, TimeStep


class Noise(NamedTuple):
    """Random numbers of an action, f32 ``[..., A]``: Gumbel, and uniform."""

    gumbel: tf.Tensor
    uniform: tf.Tensor


class Softmax(NetworkPolicy):
    """Draws actions from the softmax of logits; satisfies ``interfaces.Policy``.

    During the warm-up, every valid action is equally likely.

    Args:
      network: actor with the output ``logits``.
      size: A, number of actions.
      start: smallest action of the Discrete space.
      warmup: environment steps with random actions only.
    """

    def __init__(self, network: Actor, size: int, start: int, warmup: int):
        super().__init__(network)
        self.size, self._start, self._warmup = size, int(start), warmup

    def noise(self, shape, seed) -> Noise:
        """Draw the random numbers of a rollout."""
        shape = [*shape, self.size]
        return Noise(
            gumbel_noise(shape, seed),
            seeds.uniform(shape, seeds.key(seed, "explore")),
        )

    def act(self, timestep: TimeStep, state: Nest, noise: Noise, step, explore: bool):
        """Draw actions, or take the most probable ones."""
        _, mask = networks.split_mask(timestep.observation)
        logits = self.network(timestep)[0]["logits"]
        action = best(logits, mask)
        if explore:
            action = best(logits + noise.gumbel, mask)
            warm = best(noise.uniform, mask)
            action = tf.where(step < self._warmup, warm, action)
        return action + self._start, {}, state

    def soft(self, timestep: TimeStep, critics: Critics, key: tf.Tensor) -> tuple:
        """Return expectations over actions of min_k Q_k and of ln pi, f32 ``[N]`` each.

        Args:
          timestep: ``[N, ...]``.
          critics: of all actions.
          key: unused: expectations over Discrete actions are sums.
        """
        del key
        _, mask = networks.split_mask(timestep.observation)
        log = td.log_policy(self.network(timestep)[0]["logits"], 1.0, mask)
        policy = tf.exp(log)
        q = tf.reduce_min(critics(timestep), 0)
        if mask is not None:  # 0 times an infinite value or log would be NaN
            log = masked.safe(log, policy > 0)
        return tf.reduce_sum(policy * q, -1), tf.reduce_sum(policy * log, -1)

    def values(self, critics: Critics, timestep: TimeStep, action) -> tf.Tensor:
        """Return Q of the actions taken, f32 ``[K, N]``."""
        q = critics(timestep)
        hot = tf.one_hot(action - self._start, self.size)
        return tf.reduce_sum(q * hot, -1)
