"""Policy of Discrete actions from logits."""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch.nn import networks
from tfagents_batch.nn.actor import Actor
from tfagents_batch.nn.exploration import Warmup
from tfagents_batch.nn.policies.base import NetworkPolicy
from tfagents_batch.ops.distributions.categorical import Categorical, gumbel_noise
from tfagents_batch.types import Decision, Nest, TimeStep


class Softmax(NetworkPolicy):
    """Draws actions from the softmax of logits; satisfies ``interfaces.Policy``.

    During the warm-up, every valid action is equally likely.

    Args:
      network: actor with the output ``logits``.
      size: A, number of actions.
      start: smallest action of the Discrete space.
      warmup: warm-up with random actions.
    """

    action_noise = None  # as of policies of a Box

    def __init__(self, network: Actor, size: int, start: int, warmup: Warmup):
        super().__init__(network)
        self.size, self._start, self._warmup = size, int(start), lambda: warmup

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

    def decide(
        self, timestep: TimeStep, state: Nest, step, noise: tf.Tensor | None = None
    ) -> Decision:
        """Decide outside of training, see ``interfaces.Policy``."""
        del step, noise
        policy = self._distribution(timestep)
        return Decision(policy.mode(), state, {}, policy)

    def index(self, action: tf.Tensor) -> tf.Tensor:
        """Return the numbers of actions, from 0."""
        return action - self._start

    def _exploring(self, timestep: TimeStep, step) -> Categorical:
        return self._distribution(timestep, self._warmup().is_on(step))

    def _distribution(self, timestep: TimeStep, warm=None) -> Categorical:
        _, mask = networks.split_mask(timestep.observation)
        logits = self.network(timestep)[0]["logits"]
        if warm is not None:
            logits = tf.where(warm, 0.0, logits)
        return Categorical(logits, self._start, mask)
