"""Policies of Discrete actions: softmax of logits, and epsilon-greedy of values."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.nn.actor import Actor, ActorConfig
from tfagents_batch.nn.policies.base import NetworkPolicy
from tfagents_batch.nn.q_network import QNetwork
from tfagents_batch.ops import masked
from tfagents_batch.ops.distributions.categorical import Categorical, gumbel_noise
from tfagents_batch.schedules import Schedule
from tfagents_batch.types import Decision, EnvSpec, Nest, TimeStep


class Softmax(NetworkPolicy):
    """Draws actions from the softmax of logits; satisfies ``interfaces.Policy``.

    During the warm-up, every valid action is equally likely.

    Args:
      network: actor with the output ``logits``.
      size: A, number of actions.
      start: smallest action of the Discrete space.
      warmup: environment steps with random actions only, at the start of a run.
    """

    action_noise = None  # as of policies of a Box

    def __init__(self, network: Actor, size: int, start: int, warmup: int = 0):
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
        return self._exploring(timestep, step).probabilities()

    def decide(
        self, timestep: TimeStep, state: Nest, step, noise: tf.Tensor | None = None
    ) -> Decision:
        policy = self._distribution(timestep)
        return Decision(policy.mode(), state, {}, policy)

    def index(self, action: tf.Tensor) -> tf.Tensor:
        """Return the numbers of actions, from 0."""
        return action - self._start

    def _exploring(self, timestep: TimeStep, step) -> Categorical:
        return self._distribution(timestep, step < self._warmup)

    def _distribution(self, timestep: TimeStep, warm=None) -> Categorical:
        _, mask = networks.split_mask(timestep.observation)
        logits = self.network(timestep)[0]["logits"]
        if warm is not None:
            logits = tf.where(warm, 0.0, logits)
        return Categorical(logits, self._start, mask)


def softmax(
    spec: EnvSpec, config: ActorConfig, network: Any, warmup: int = 0
) -> Softmax:
    """Return a policy with variables of its own; ``network`` is the user's, or None."""
    space = spec.action_space
    made = Actor(spec, config, {"logits": int(space.n)}, network)
    return Softmax(made, int(space.n), space.start, warmup)


class Noise(NamedTuple):
    """Random numbers of an action.

    Attributes:
      explore: uniform, ``[...]``; a random action is taken below epsilon.
      action: Gumbel, ``[..., A]``; the place of its largest number is a random action.
      network: noise of the network.
    """

    explore: tf.Tensor
    action: tf.Tensor
    network: Nest


class EpsilonGreedy(NetworkPolicy):
    """Takes the action of the largest value, or a random one; an ``interfaces.Policy``.

    With probability epsilon, and always during the warm-up, every valid action is
    equally likely. With a temperature, the other actions are drawn with the
    probabilities softmax(Q / temperature). If the network says which actions are
    allowed, all others are taken at random only.

    Args:
      network: network of action values. If it is noisy, each row has its own noise.
      start: smallest action of the Discrete space.
      epsilon: schedule of the probability over environment steps.
      warmup: environment steps with random actions only, at the start of a run.
      temperature: schedule over environment steps; None for the largest value.
    """

    def __init__(
        self,
        network: QNetwork,
        start: int,
        epsilon: Schedule,
        warmup: int = 0,
        temperature: Schedule | None = None,
    ):
        super().__init__(network)
        self._start, self._warmup = int(start), warmup
        self._epsilon, self._temperature = epsilon, temperature

    def noise(self, shape, seed) -> Noise:
        """Draw the random numbers of a rollout."""
        return Noise(
            seeds.uniform([*shape], seeds.key(seed, "explore")),
            gumbel_noise([*shape, self.network.size], seed),
            self.network.noise(shape, seeds.key(seed, "network")),
        )

    def act(self, timestep: TimeStep, state: Nest, noise: Noise, step, explore: bool):
        """Select actions of the largest value among the valid ones, or random ones."""
        q, mask, allowed = self._values(timestep, noise.network if explore else ())
        action = best(q, allowed)
        if explore:
            if self._temperature is not None:
                action = self._softmax(q, allowed, step).sample(noise.action)
            drawn = noise.explore < self.epsilon(step)
            action = tf.where(drawn, best(noise.action, mask), action)
        return action + self._start, {}, state

    def probabilities(self, timestep: TimeStep, state: Nest, step) -> tf.Tensor:
        if self.network.noisy:
            raise UserError(
                "the probabilities of actions are not available with noisy networks: "
                "a mean over the noise of all weights has no closed form; train with "
                "--algorithm.network.noisy=false and explore by --algorithm.epsilon or "
                "--algorithm.temperature"
            )
        q, mask, allowed = self._values(timestep)
        if self._temperature is None:
            chosen = tf.one_hot(best(q, allowed), self.network.size)
        else:
            chosen = self._softmax(q, allowed, step).probabilities()
        drawn = Categorical(tf.zeros_like(q), mask=mask).probabilities()
        epsilon = self.epsilon(step)
        return epsilon * drawn + (1 - epsilon) * chosen

    def decide(
        self, timestep: TimeStep, state: Nest, step, noise: tf.Tensor | None = None
    ) -> Decision:
        q, mask, allowed = self._values(timestep)
        uniform = Categorical(tf.zeros_like(q), self._start, mask)
        return Decision(best(q, allowed) + self._start, state, {"values": q}, uniform)

    def epsilon(self, step) -> tf.Tensor:
        """Return the probability of a random action, f32 ``[]``."""
        return tf.where(step < self._warmup, 1.0, self._epsilon(step))

    def index(self, action: tf.Tensor) -> tf.Tensor:
        """Return the place of actions among the values, int32."""
        return action - self._start

    def _values(self, timestep: TimeStep, noise: Nest = ()) -> tuple:
        """Return the values of all actions, and masks; None if all are true.

        The first mask has the valid actions, the second one those among them that are
        allowed.
        """
        _, mask = networks.split_mask(timestep.observation)
        heads = self.network(timestep, (), noise)[0]
        return heads.q, mask, both(mask, heads.allowed)

    def _softmax(self, q: tf.Tensor, mask: tf.Tensor | None, step) -> Categorical:
        assert self._temperature is not None
        return Categorical(q / self._temperature(step), mask=mask)


def both(valid: tf.Tensor | None, allowed: Nest) -> tf.Tensor | None:
    """Return which actions are valid and allowed, see ``ActionValueHeads``.

    Args:
      valid: bool ``[..., A]``; None if all are.
      allowed: bool ``[..., A]``; ``()`` if all are.
    """
    if isinstance(allowed, tuple):
        return valid
    return allowed if valid is None else valid & allowed


def best(value: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    """Return the valid action of the largest value, int32 ``[...]``.

    Args:
      value: f32 ``[..., A]``.
      mask: bool ``[..., A]``, valid actions; None if all are. A row without a valid
        action counts as all valid.
    """
    value = value if mask is None else masked.logits(value, mask)
    return tf.argmax(value, -1, tf.int32)
