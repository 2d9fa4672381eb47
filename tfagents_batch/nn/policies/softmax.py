"""Policy of Discrete actions from logits."""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch.nn import networks
from tfagents_batch.nn.actor import Actor
from tfagents_batch.nn.critics import Critics
from tfagents_batch.nn.policies.base import NetworkPolicy
from tfagents_batch.ops import masked, td
from tfagents_batch.ops.distributions.categorical import Categorical, gumbel_noise
from tfagents_batch.types import Nest, TimeStep


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

    def noise(self, shape, seed) -> tf.Tensor:
        """Draw the Gumbel noise of a rollout."""
        return gumbel_noise([*shape, self.size], seed)

    def act(self, timestep: TimeStep, state: Nest, noise, step, explore: bool):
        """Draw actions, or take the most probable ones."""
        if explore:
            return self._exploring(timestep, step).sample(noise), {}, state
        return self._distribution(timestep).mode(), {}, state

    def probabilities(self, timestep: TimeStep, state: Nest, step) -> tf.Tensor:
        """Return the probability of every action, see ``interfaces.Policy``."""
        return self._exploring(timestep, step).probabilities()

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

    def _exploring(self, timestep: TimeStep, step) -> Categorical:
        return self._distribution(timestep, step < self._warmup)

    def _distribution(self, timestep: TimeStep, warm=None) -> Categorical:
        _, mask = networks.split_mask(timestep.observation)
        logits = self.network(timestep)[0]["logits"]
        if warm is not None:
            logits = tf.where(warm, 0.0, logits)
        return Categorical(logits, self._start, mask)
