"""Noise on actions of a Box, by which algorithms with a replay explore."""

from __future__ import annotations

from typing import Literal

import tensorflow as tf

from tfagents_batch.graph import arrays
from tfagents_batch.ops.distributions.gaussian import DiagNormal
from tfagents_batch.schedules import Schedule
from tfagents_batch.types import Nest, TimeStep

Kind = Literal["none", "gaussian", "ou"]
# Share of a step's noise in the next one; theta 0.15 of Lillicrap et al. 2016.
_KEPT = {"gaussian": 0.0, "ou": 1 - 0.15}


class ActionNoise(tf.Module):
    """Noise x <- kept x + scale N(0, 1) on actions, which are scaled to [-1, 1].

    "gaussian" is independent normal noise. "ou" is Ornstein-Uhlenbeck noise: it is
    correlated in time and starts at 0 in every episode (Lillicrap et al. 2016,
    arXiv:1509.02971, section 7).

    Args:
      kind: one of these names.
      scale: schedule of its scale, in units of half the range of an action.
    """

    def __init__(self, kind: Kind, scale: Schedule):
        super().__init__()
        self.scale, self._kept = scale, _KEPT[kind]

    def initial_state(self, batch: int, size: int) -> Nest:
        """Return the state before the first step, for ``[batch, size]`` actions."""
        return arrays.zeros([batch, size]) if self._kept else ()

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
        if self._kept:
            before = tf.where(timestep.first[:, tf.newaxis], 0.0, state)
            action = action + self._kept * before
        return DiagNormal(action, self.scale(step), event_ndims=0)

    def next_state(self, noise: tf.Tensor) -> Nest:
        """Return the state after the noise of a step, f32 ``[N, A]``."""
        return noise if self._kept else ()
