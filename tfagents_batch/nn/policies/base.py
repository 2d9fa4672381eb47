"""Parts that policies share: their version, and copies from one policy to another."""

from __future__ import annotations

from typing import Any, Self

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks, recurrent_encoder
from tfagents_batch.nn.normalizers import ObservationNormalizer
from tfagents_batch.types import Nest, TimeStep


class NetworkPolicy(tf.Module):
    """Base of policies whose variables are those of a network.

    A policy of Discrete actions defines ``probabilities``, one of Box actions
    ``log_density``; the other one raises an error. The acting state is the policy's
    own, such as that of its noise; with a recurrent encoder it is a pair of the
    encoder's and the policy's own.

    Args:
      network: network of the policy.
      observations: normalizer of the observations by which it acts, or None.

    Attributes:
      of_value: variables of a value that sees other entries of observations than the
        actor, which only training needs; none if both see the same.
      encoder: recurrent encoder of the network; None if it has no memory.
      records: whether ``act`` records the encoder's state before each step.
    """

    def __init__(self, network: Any, observations: ObservationNormalizer | None = None):
        super().__init__()
        self.network, self.observations = network, observations
        self.of_value = getattr(network, "of_value", [])
        self.encoder = recurrent_encoder.of(network)
        self.records = False
        self.version = tf.Variable(0, dtype=tf.int64, trainable=False)

    def seen(self, timestep: TimeStep) -> TimeStep:
        """Return steps as the network gets them: with normalized observations."""
        if self.observations is None:
            return timestep
        observation = self.observations(timestep.observation)
        return timestep._replace(observation=observation)

    def initial_state(self, batch: int) -> Nest:
        return self._state(batch, True)

    def memory(self, batch: int | tf.Tensor, explore: bool) -> Nest:
        """Return the state of decisions, which is that of actions."""
        return self._state(batch, explore)

    def own_state(self, batch: int | tf.Tensor) -> Nest:
        """Return the policy's own part of the acting state, at the start."""
        return ()

    def parts(self, state: Nest) -> tuple[Nest, Nest]:
        """Return the encoder's part of an acting state, and the policy's own."""
        return ((), state) if self.encoder is None else state

    def joined(self, remembered: Nest, own: Nest) -> Nest:
        """Return the acting state of these parts."""
        return own if self.encoder is None else (remembered, own)

    def recorded(self, remembered: Nest) -> dict[str, Nest]:
        """Return what ``act`` records of the encoder's state before a step."""
        return {"state": remembered} if self.records else {}

    def _state(self, batch: int | tf.Tensor, own: bool) -> Nest:
        """Return the state at the start, with or without the policy's own part."""
        remembered = () if self.encoder is None else self.encoder.initial_state(batch)
        return self.joined(remembered, self.own_state(batch) if own else ())

    def assign_from(self, policy: Self) -> None:
        variables = policy.named_variables()
        for name, variable in self.named_variables().items():
            variable.assign(tf.convert_to_tensor(variables[name]))
        self.version.assign(policy.version)

    def probabilities(self, timestep: TimeStep, state: Nest, step) -> tf.Tensor:
        """Raise the error for Box actions."""
        raise UserError(
            "probabilities of actions need a Discrete action space, but the action "
            "space is a Box, whose actions have a density; call log_density"
        )

    def log_density(
        self, timestep: TimeStep, state: Nest, action: tf.Tensor, step
    ) -> tf.Tensor:
        """Raise the error for Discrete actions."""
        raise UserError(
            "log_density needs a Box action space, but the action space is Discrete, "
            "and its actions have probabilities; call probabilities"
        )

    def named_variables(self) -> dict[str, keras.Variable]:
        """Return weights and statistics of observations by name."""
        apart = {id(x) for x in self.of_value}
        acting = [x for x in self.network.variables if id(x) not in apart]
        named = nest.prefixed("policy/network", networks.numbered(acting))
        named |= nest.prefixed("learner/value", networks.numbered(self.of_value))
        if self.observations is not None:
            statistics = self.observations.named_variables()
            named |= nest.prefixed("statistics/observations", statistics)
            others = self.observations.named_variables(acting=False)
            named |= nest.prefixed("learner/observations", others)
        return named
