"""Protocol of samplers, which choose the transitions of a replay's next batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import tensorflow as tf

from tfagents_batch.metrics import Metrics
from tfagents_batch.sources.replay.layout import Layout, Span


class Ring(NamedTuple):
    """The stored steps as a sampler sees them."""

    sizes: Layout  # sizes of the storage
    span: Span  # stored steps of every environment
    size: tf.Tensor  # int32 [], number of transitions that can be drawn
    # From int32 [N] environments and rows to bool [N]: whether a transition leads from
    # a row to the next one
    is_transition: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class Drawn(NamedTuple):
    """Transitions of a batch, ``[N]`` each."""

    # env, row: int32, environments and rows of the first steps
    env: tf.Tensor
    row: tf.Tensor
    valid: tf.Tensor  # bool, false where nothing could be drawn
    weight: tf.Tensor  # f32, importance weights


class Sampler(Protocol):
    """A tf.Module that draws stored transitions: ``Uniform`` or ``Prioritized``."""

    def draw(self, ring: Ring, seed: tf.Tensor, step: tf.Tensor) -> Drawn:
        """Draw N transitions.

        Args:
          ring: the stored steps.
          seed: int32 ``[]``.
          step: i64 ``[]``, environment steps of the run, for schedules.
        """
        ...

    def change(self, leaves: tf.Tensor, entered: tf.Tensor) -> None:
        """Learn which transitions can be drawn from now on.

        Args:
          leaves: int32 ``[n]``, env * rows + row of transitions that entered or left;
            batch * rows for entries that change nothing.
          entered: bool ``[n]``, false for those that left.
        """
        ...

    def feedback(self, priority: tf.Tensor) -> None:
        """Receive the priorities of the newest sample after its update, f32 ``[N]``."""
        ...

    def metrics(self, size: tf.Tensor) -> Metrics:
        """Return metrics for the log; ``size`` is ``Ring.size`` as f32."""
        ...

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return the state by name."""
        ...
