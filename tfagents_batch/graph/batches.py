"""Training batches for policy gradients: transitions, or sequences of transitions."""

from __future__ import annotations

import functools
from typing import NamedTuple

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.graph import sequences
from tfagents_batch.types import Nest, TimeStep


class Batch(NamedTuple):
    """Input of a loss, ``[T, B, ...]`` of a trajectory.

    It is cut into rows on the leading axis: transitions ``[N, ...]`` or sequences
    ``[N, L, ...]``. A minibatch of sequences is time-major again, ``[L, n, ...]``.

    Attributes:
      steps: steps as the network receives them.
      action: nest.
      log_prob: log-probability of the action under the behavior policy.
      policy: parameters of the behavior policy.
      advantage: advantage of the actions.
      value: value estimate before the update.
      target: target of the value estimate.
      mask: for sequences, bool: true for the steps that count.
      state: for sequences, the state of a recurrent network before their first step,
        ``[N, ...]``.
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
        """True if the rows are sequences."""
        return not isinstance(self.mask, tuple)

    @property
    def length(self) -> int:
        """Steps of a row ``[N, ...]``: L of sequences, 1 of transitions."""
        return self.mask.shape[1] if self.sequential else 1


def rows(
    batch: Batch, mask: tf.Tensor, length: int | None, state: Nest = ()
) -> tuple[Batch, tf.Tensor]:
    """Return the rows for minibatches, and a mask of those that count, bool ``[N]``.

    A sequence counts if one of its steps does.

    Args:
      batch: ``[T, B, ...]``.
      mask: bool ``[T, B]``.
      length: length of sequences, at most T; None for transitions.
      state: state of a recurrent network before each step, ``[T, B, ...]``.
    """
    if length is None:
        return nest.fold((batch, mask))
    length = min(length, mask.shape[0])
    cut = functools.partial(sequences.cut, length=length)
    rows = cut(batch._replace(policy=()))._replace(
        policy=cut(batch.policy, padding=1.0),  # the KL is not finite for a std of 0
        mask=cut(mask),
        state=sequences.starts(state, length),
    )
    return rows, tf.reduce_any(rows.mask, 1)


def minibatch(rows: Batch, taken: tf.Tensor) -> tuple[Batch, tf.Tensor]:
    """Return rows in the layout of a loss, and the mask of the loss.

    Args:
      rows: ``[n, ...]``.
      taken: bool ``[n]`` or ``[]``, true for the rows that count.
    """
    if not rows.sequential:
        return rows, taken
    state = rows.state
    rows = sequences.swap(rows._replace(state=()))
    return rows._replace(state=state), rows.mask & taken
