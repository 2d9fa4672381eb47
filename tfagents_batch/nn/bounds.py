"""Bounds of Box actions; networks see actions scaled to [-1, 1]."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces as gs

from tfagents_batch.errors import UserError
from tfagents_batch.nn.encoder import ACTION_MASK
from tfagents_batch.ops.distributions import families
from tfagents_batch.types import EnvSpec


class Bounds(NamedTuple):
    """Bounds of an action, f32 ``[*shape]`` each."""

    low: np.ndarray
    high: np.ndarray

    @property
    def size(self) -> int:
        """Number of entries of an action, A."""
        return math.prod(self.low.shape)

    @property
    def flat(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds, f32 ``[A]`` each."""
        return np.reshape(self.low, -1), np.reshape(self.high, -1)

    def action(self, unit: tf.Tensor) -> tf.Tensor:
        """Return actions ``[N, *shape]`` of f32 ``[N, A]`` within [-1, 1]."""
        half = self.high / 2 - self.low / 2
        unit = tf.reshape(unit, [-1, *self.low.shape])
        action = self.low + half * (unit + 1)
        action = tf.clip_by_value(action, self.low, self.high)
        return tf.where(unit >= 1, self.high, action)  # rounding may not reach it

    def unit(self, action: tf.Tensor) -> tf.Tensor:
        """Return actions ``[N, *shape]`` scaled to [-1, 1], f32 ``[N, A]``."""
        low, high = self.flat
        return (tf.reshape(action, [-1, self.size]) - low) / (high / 2 - low / 2) - 1


def bounds(spec: EnvSpec) -> Bounds:
    """Return the bounds of the actions of environments.

    Raises:
      UserError: if actions are not a Box of floats with finite bounds, or are masked.
    """
    space = spec.action_space
    if not isinstance(space, gs.Box) or not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"the action space is {space}, but this algorithm needs a Box of floats; "
            "sac and dqn take Discrete actions, and ppo any; to learn from logged rows "
            "of Discrete actions, use bcq, crr_discrete, bc or dqn (CQL: cql_scale)"
        )
    observed = spec.observation_space
    if isinstance(observed, gs.Dict) and ACTION_MASK in observed.spaces:
        raise UserError(
            f"the observation has {ACTION_MASK!r}, but the action space is {space}: "
            "cannot mask actions; only Discrete and MultiDiscrete action spaces "
            f"support it; leave {ACTION_MASK!r} out"
        )
    return Bounds(*families.finite_bounds(space))
