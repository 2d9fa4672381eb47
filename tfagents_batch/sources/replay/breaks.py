"""Breaks: the inner source goes on elsewhere, so two stored steps do not follow.

After a void collect, and before the first one, the first step of the next collect
follows no stored step. It is marked as ``first``, so that the mask of the transition
into it is false. A stack of frames cannot be rebuilt there either, until as many rows
are stored or an episode opens: such rows are marked as failed (``first`` and
``truncated`` at once), and the masks of all transitions at them are false.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tfagents_batch.sources.replay import frames
from tfagents_batch.types import TimeStep


class Break(NamedTuple):
    """State of a break."""

    broken: tf.Tensor  # bool [], the next collect's first step follows no stored step
    missing: tf.Tensor  # int32 [B], number of next rows whose stack cannot be rebuilt


def fresh(batch: int, stack: int) -> Break:
    """Return the state directly after a break."""
    return Break(tf.constant(True), tf.fill([batch], stack - 1))


def mark(steps: TimeStep, state: Break, stack: int) -> tuple[TimeStep, Break]:
    """Mark the steps of a collect.

    Args:
      steps: of ``[k+1, B, ...]``; the last one is the first of the next collect.
      state: state before.
      stack: frames of an observation, 1 if frames are not stacked.

    Returns:
      The marked steps, and the state after them.
    """
    opened, missing = frames.opens(steps), state.missing
    size = opened.shape[0]
    assert size is not None
    failed = []
    for t in range(min(size, stack - 1)):
        missing = tf.where(opened[t], 0, missing)
        failed.append(missing > 0)
        if t < size - 1:
            missing = tf.maximum(missing - 1, 0)
    start = tf.range(size)[:, tf.newaxis] == 0
    first = steps.first | (start & state.broken)
    after = Break(tf.constant(False), missing)
    if not failed:
        return steps._replace(first=first), after
    failed = tf.pad(tf.stack(failed), [[0, size - len(failed)], [0, 0]])
    marked = steps._replace(first=first | failed, truncated=steps.truncated | failed)
    return marked, after
