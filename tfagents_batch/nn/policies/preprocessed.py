"""Policies of raw features, made of policies of normalized ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Algorithm, Policy
from tfagents_batch.nn.layers.feature_normalizer import FeatureNormalizer
from tfagents_batch.types import Decision, Nest, TimeStep

# Parts of an observation; a vector alone is ``STATE``, and all of it is present.
STATE, PRESENCE = "state", "presence"


def normalized_space(space: gymnasium.Space, inputs: int, size: int) -> gymnasium.Space:
    """Return the space of observations whose features are normalized.

    Args:
      space: a vector, or a Dict with ``STATE``, maybe ``PRESENCE``, and other parts.
      inputs, size: numbers of raw and of normalized features.

    Raises:
      UserError: for another space.
    """
    parts = dict(space.spaces) if isinstance(space, gs.Dict) else {STATE: space}
    parts.pop(PRESENCE, None)
    raw = parts.get(STATE)
    if not isinstance(raw, gs.Box) or raw.shape != (inputs,):
        raise UserError(
            f"the observation space is {space}, but the specification of features "
            f"needs a vector of {inputs} numbers, alone or as {STATE!r} of a Dict"
        )
    normalized = gs.Box(-np.inf, np.inf, (size,), np.float32)
    return gs.Dict(parts | {STATE: normalized}) if len(parts) > 1 else normalized


class Preprocessed(tf.Module):
    """Policy that normalizes features first; an ``interfaces.Policy``.

    Its variables are those of the policy, without the parameters of the normalization.
    """

    def __init__(self, policy: Policy, normalizer: FeatureNormalizer):
        super().__init__()
        self._policy, self._normalizer = policy, normalizer
        self.version, self.named_variables = policy.version, policy.named_variables
        self.initial_state, self.memory = policy.initial_state, policy.memory
        self.noise, self.remembers = policy.noise, getattr(policy, "remembers", True)

    def act(self, timestep: TimeStep, state: Nest, noise: Nest, step, explore: bool):
        return self._policy.act(self._seen(timestep), state, noise, step, explore)

    def assign_from(self, policy: Any) -> None:
        """Copy the weights of another such policy; parameters never change."""
        self._policy.assign_from(policy._policy)

    def probabilities(self, timestep: TimeStep, state: Nest, step) -> tf.Tensor:
        return self._policy.probabilities(self._seen(timestep), state, step)

    def log_density(
        self, timestep: TimeStep, state: Nest, action: tf.Tensor, step
    ) -> tf.Tensor:
        return self._policy.log_density(self._seen(timestep), state, action, step)

    def decide(
        self, timestep: TimeStep, state: Nest, step, noise: tf.Tensor | None = None
    ) -> Decision:
        return self._policy.decide(self._seen(timestep), state, step, noise)

    def _seen(self, timestep: TimeStep) -> TimeStep:
        """Return steps with normalized observations."""
        raw = timestep.observation
        parts = dict(raw) if isinstance(raw, dict) else {STATE: raw}
        values, presence = parts.pop(STATE), parts.pop(PRESENCE, None)
        state = self._normalizer(values, presence)
        observation = {**parts, STATE: state} if parts else state
        return timestep._replace(observation=observation)


class Player:
    """Agent to be played, whose policy is made of that of an algorithm.

    ``played`` returns it, with what it adds on the current device. For the attributes
    see ``interfaces.Algorithm``.
    """

    def __init__(self, algorithm: Algorithm, played: Callable[[Any], Policy]):
        self.policy: Policy = played(algorithm.policy)
        self.compilable, self.config = algorithm.compilable, algorithm.config
        self._make: Callable[[], Policy] = algorithm.make_policy
        self._played = played

    def make_policy(self) -> Policy:
        """Return a further policy, with weights of its own."""
        return self._played(self._make())
