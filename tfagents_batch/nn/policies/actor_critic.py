"""Policy of an actor-critic network, which collects experience for its algorithm."""

from __future__ import annotations

import math

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.graph import arrays
from tfagents_batch.interfaces import Distribution, Network
from tfagents_batch.nn.layers import state_noise
from tfagents_batch.nn.normalizers import ObservationNormalizer
from tfagents_batch.nn.policies.base import NetworkPolicy
from tfagents_batch.ops.categorical import Categorical
from tfagents_batch.ops.gaussian import DiagNormal, TanhNormal
from tfagents_batch.types import ActorCriticHeads, Decision, Nest, TimeStep


class ActorCriticPolicy(NetworkPolicy):
    """Samples the policy head of a network; satisfies ``interfaces.Policy``.

    Its acting state is the network's recurrent state and the running discounted return
    of each environment, by which rewards are normalized; and the matrix of noise that
    is a function of the state. Log-probabilities are those over all matrices.

    Args:
      network: network with the heads ``policy`` and ``value``.
      observations: normalizer of the observations.
      gamma: discount factor of the running return.
      sde_every: steps for which a matrix of noise is kept; None for a network without.
      value: whether it computes values, and so needs what they see.
    """

    observations: ObservationNormalizer

    def __init__(
        self,
        network: Network,
        observations: ObservationNormalizer,
        gamma: float,
        sde_every: int | tf.Variable | None = None,
        value: bool = True,
    ):
        super().__init__(network, observations)
        self._gamma, self._sde_every = gamma, sde_every
        self._options = {} if value else {"value": False}
        self.recurrent = bool(nest.flatten(network.initial_state(2)))
        # No action depends on the running return, the rest of the acting state.
        self.remembers = self.recurrent or sde_every is not None

    def alone(self) -> ActorCriticPolicy:
        """Return the policy without a value that sees more, with the same variables.

        It acts by the actor's entries of observations alone.
        """
        parts = self.network, self.observations, self._gamma, self._sde_every
        policy = ActorCriticPolicy(*parts, value=False)
        policy.version = self.version
        return policy

    def initial_state(self, batch: int | tf.Tensor) -> Nest:
        """Return the network's recurrent state and a return of 0."""
        state = self._memory(batch), arrays.zeros([batch])
        if self._sde_every is None:
            return state
        return *state, state_noise.initial_state(batch, self.network.trained_std)

    def noise(self, shape, seed) -> tf.Tensor:
        if self._sde_every is not None:
            return state_noise.keys(shape, seed)
        return self.network.family.noise(shape, seed)

    def act(self, timestep: TimeStep, state: Nest, noise, step, explore: bool):
        """Sample actions, or take the mode of the policy."""
        before, return_, *held = state
        heads, net_state = self._heads(timestep, before)
        policy = heads.policy
        if held and explore:
            matrix, *held = state_noise.step(*held, noise, self._sde_every)
            noise = self.network.state_noise.normal(heads.features, matrix)
            noise = tf.reshape(noise, [-1, *self.network.family.shape])
        action = policy.sample(noise) if explore else policy.mode()
        return_ = tf.where(timestep.first, 0.0, self._gamma * return_ + timestep.reward)
        behavior = {
            "log_prob": policy.log_prob(action),
            "policy": policy.params,
            "return": return_,
        }
        if self.recurrent:
            behavior["state"] = before
        return action, behavior, (net_state, return_, *held)

    def distribution(self, timestep: TimeStep, state: Nest) -> Distribution:
        """Return the policy's actions in a step; ``state`` is that of acting."""
        return self._heads(timestep, state[0])[0].policy

    def probabilities(self, timestep: TimeStep, state: Nest, step) -> tf.Tensor:
        policy = self.distribution(timestep, state)
        if isinstance(policy, Categorical):
            return policy.probabilities()
        _check_single(policy)
        return super().probabilities(timestep, state, step)

    def log_density(
        self, timestep: TimeStep, state: Nest, action: tf.Tensor, step
    ) -> tf.Tensor:
        policy = self.distribution(timestep, state)
        _check_single(policy)
        if isinstance(policy, Categorical):
            return super().log_density(timestep, state, action, step)
        log = policy.log_prob(action)
        if isinstance(policy, TanhNormal):
            log = tf.where(policy.contains(action), log, -math.inf)
        return log

    def memory(self, batch: int | tf.Tensor, explore: bool) -> Nest:
        return self._memory(batch)

    def decide(
        self, timestep: TimeStep, state: Nest, step, noise: tf.Tensor | None = None
    ) -> Decision:
        heads, state = self._heads(timestep, state)
        policy = heads.policy
        values = {} if isinstance(heads.value, tuple) else {"value": heads.value}
        if not isinstance(policy, DiagNormal | TanhNormal):
            return Decision(policy.mode(), state, values, policy)
        if noise is None:
            return Decision(policy.mode(), state, values)
        noise = tf.reshape(noise, [-1, *self.network.family.shape])
        if isinstance(policy, TanhNormal):
            action, log = policy.sample_with_log_prob(noise)
        else:
            action = policy.sample(noise)
            log = policy.log_prob(action)
        return Decision(action, state, values, None, log)

    def _heads(self, timestep: TimeStep, state: Nest) -> tuple[ActorCriticHeads, Nest]:
        """Return the heads of the network, and its next state."""
        return self.network(self.seen(timestep), state, **self._options)

    def _memory(self, batch: int | tf.Tensor) -> Nest:
        return self.network.initial_state(batch, **self._options)


def _check_single(policy: Distribution) -> None:
    """Raise an error if an action consists of several numbered choices."""
    if not isinstance(policy, Categorical | DiagNormal | TanhNormal):
        raise UserError(
            "probabilities need a Discrete action space and log_density a Box, but "
            "actions are MultiDiscrete, MultiBinary, Dict or Tuple: there are too many "
            "joint actions; the log probability of each action taken is "
            'behavior["log_prob"] of a trajectory'
        )
