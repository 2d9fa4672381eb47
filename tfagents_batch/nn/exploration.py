"""Exploration of algorithms with a replay: random actions at first, and noise."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

import tensorflow as tf

from tfagents_batch.graph import arrays
from tfagents_batch.ops.distributions.gaussian import DiagNormal
from tfagents_batch.schedules import Schedule
from tfagents_batch.types import Nest, TimeStep

Kind = Literal["none", "gaussian", "ou"]
_THETA = 0.15  # of Ornstein-Uhlenbeck noise, as in Lillicrap et al. 2016


class Warmup(NamedTuple):
    """Random actions at the start of a run.

    Attributes:
      steps: environment steps with random actions only.
    """

    steps: int

    def is_on(self, step: int | tf.Tensor) -> Any:
        """Return bool ``[]``: whether actions at this environment step are random."""
        return step < self.steps


class ActionNoise(Protocol):
    """A tf.Module: noise on actions, which are scaled to [-1, 1].

    Attributes:
      scale: schedule of its scale, in units of half the range of an action.
    """

    scale: Schedule

    def initial_state(self, batch: int, size: int) -> Nest:
        """Return the state before the first step, for ``[batch, size]`` actions."""
        ...

    def distribution(
        self, action: tf.Tensor, timestep: TimeStep, state: Nest, step
    ) -> DiagNormal:
        """Return the distribution of noisy actions before they are clipped, ``[N, A]``.

        Args:
          action: f32 ``[N, A]``, without noise.
          timestep: ``[N, ...]``.
          state: of the noise.
          step: environment steps of the run.
        """
        ...

    def next_state(self, noise: tf.Tensor) -> Nest:
        """Return the state after the noise of a step, f32 ``[N, A]``."""
        ...


class Gaussian(tf.Module):
    """Independent normal noise; satisfies ``ActionNoise``."""

    def __init__(self, scale: Schedule):
        super().__init__()
        self.scale = scale

    def initial_state(self, batch: int, size: int) -> Nest:
        """Return no state."""
        return ()

    def distribution(
        self, action: tf.Tensor, timestep: TimeStep, state: Nest, step
    ) -> DiagNormal:
        """Return the action with noise N(0, scale^2)."""
        return DiagNormal(action, self.scale(step), event_ndims=0)

    def next_state(self, noise: tf.Tensor) -> Nest:
        """Return no state."""
        return ()


class OrnsteinUhlenbeck(tf.Module):
    """Noise x <- (1 - theta) x + scale N(0, 1) with theta 0.15; an ``ActionNoise``.

    It is correlated in time and starts at 0 in every episode (Lillicrap et al. 2016,
    arXiv:1509.02971, section 7).
    """

    def __init__(self, scale: Schedule):
        super().__init__()
        self.scale = scale

    def initial_state(self, batch: int, size: int) -> Nest:
        """Return the noise before the first step, 0."""
        return arrays.zeros([batch, size])

    def distribution(
        self, action: tf.Tensor, timestep: TimeStep, state: Nest, step
    ) -> DiagNormal:
        """Return the action with noise, given that of the step before."""
        before = tf.where(timestep.first[:, tf.newaxis], 0.0, state)
        mean = action + (1 - _THETA) * before
        return DiagNormal(mean, self.scale(step), event_ndims=0)

    def next_state(self, noise: tf.Tensor) -> Nest:
        """Return the noise of this step."""
        return noise


def action_noise(kind: Kind, scale: Schedule) -> ActionNoise | None:
    """Return the noise of a name; None for "none"."""
    if kind == "none":
        return None
    return {"gaussian": Gaussian, "ou": OrnsteinUhlenbeck}[kind](scale)
