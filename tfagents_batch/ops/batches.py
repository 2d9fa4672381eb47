"""What policy gradients learn from: transitions, or sequences of them."""

from __future__ import annotations

import functools
from typing import NamedTuple

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.ops import sequences
from tfagents_batch.types import Nest, TimeStep


class Batch(NamedTuple):
    """What a loss reads, ``[T, B, ...]`` of a trajectory.

    It is cut into rows, which lead: transitions ``[N, ...]`` or sequences ``[N, L,
    ...]``. A minibatch of sequences is time-major again, ``[L, n, ...]``.

    Attributes:
      steps: as the network sees them.
      action: nest.
      log_prob: of the behavior policy.
      policy: its parameters.
      advantage: of the actions.
      value: before the update.
      target: what it should have been.
      mask: of sequences: bool, which of their steps count.
      state: of sequences: that of a recurrent network before their first step, ``[N,
        ...]``.
    """

    steps: TimeStep
    action: Nest
    log_prob: tf.Tensor
    policy: dict[str, tf.Tensor]
    advantage: tf.Tensor
    value: tf.Tensor
    target: tf.Tensor
    mask: tf.Tensor | tuple = ()
    state: Nest = ()

    @property
    def sequential(self) -> bool:
        """Whether these are sequences."""
        return not isinstance(self.mask, tuple)

    @property
    def length(self) -> int:
        """Steps of a row ``[N, ...]``: L of sequences, 1 of transitions."""
        return self.mask.shape[1] if self.sequential else 1


def rows(
    batch: Batch, mask: tf.Tensor, length: int | None, state: Nest = ()
) -> tuple[Batch, tf.Tensor]:
    """Rows that minibatches are made of, and which of them count, bool ``[N]``.

    A sequence counts if one of its steps does.

    Args:
      batch: ``[T, B, ...]``.
      mask: bool ``[T, B]``.
      length: of sequences, cut to T; None for transitions.
      state: of a recurrent network before each step, ``[T, B, ...]``.
    """
    if length is None:
        return nest.fold((batch, mask))
    length = min(length, mask.shape[0])
    cut = functools.partial(sequences.cut, length=length)
    rows = cut(batch._replace(policy=()))._replace(
        policy=cut(batch.policy, padding=1.0),  # a deviation of 0 has no KL
        mask=cut(mask),
        state=sequences.starts(state, length),
    )
    return rows, tf.reduce_any(rows.mask, 1)


def minibatch(rows: Batch, taken: tf.Tensor) -> tuple[Batch, tf.Tensor]:
    """Some rows as a loss reads them, and its mask.

    Args:
      rows: ``[n, ...]``.
      taken: bool ``[n]`` or ``[]``, which of them count.
    """
    if not rows.sequential:
        return rows, taken
    state = rows.state
    rows = sequences.swap(rows._replace(state=()))
    return rows._replace(state=state), rows.mask & taken
