"""Positions in the ring: where rows are stored and which of them start a window.

Each environment has a ring of ``rows`` rows. A row holds one step and the action taken
there. All rows of an environment lie together, so that a window is one slice:

    0 ... rows - 1 | mirror of the first rows      (environment 0)
    0 ... rows - 1 | mirror of the first rows      (environment 1)
    ...
    one unused row

The mirror keeps a window that crosses the end of the ring in one piece. Writes of rows
that have no mirror go to the unused row: XLA would copy the ring for a branch.

Let ``head`` be the row of the newest step and ``filled`` the number of stored steps:

    head - filled + 1 ... head              stored steps, oldest to newest
    the first stack - 1 of them             only frames of later stacks
    the last window - 1 of them             too new to start a window
    head + 1 ... head + k + 1               gap, which a void collect may overwrite
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class RingLayout(NamedTuple):
    """Sizes of the ring."""

    batch: int  # B, number of environments
    rows: int  # R, rows of the ring of an environment
    steps: int  # k, env steps per environment and collect
    window: int  # steps of a window, n + 1
    stack: int  # frames per observation, 1 if frames are not stacked

    @property
    def mirror(self) -> int:
        """Number of mirrored rows: rows that a window needs beyond its first."""
        return self.window + self.stack - 2

    @property
    def stride(self) -> int:
        """Number of stored rows from one environment to the next."""
        return self.rows + self.mirror

    @property
    def size(self) -> int:
        """Number of stored rows, with the unused one."""
        return self.batch * self.stride + 1

    @property
    def room(self) -> int:
        """Largest number of stored steps per environment: all rows but the gap."""
        return self.rows - self.steps - 1

    def place(self, env: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        """Return the int32 stored index of a row; rows count modulo ``rows``."""
        return env * self.stride + row % self.rows

    def targets(self, rows: tf.Tensor, use: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the stored indices to write for rows of every environment.

        Args:
          rows: int32 ``[n]``.
          use: bool ``[n]``; rows where it is false go to the unused row.

        Returns:
          int32 ``[n * B]`` indices of the rows and of their mirrors.
        """
        rows = (rows % self.rows)[:, tf.newaxis]
        use = use[:, tf.newaxis]
        at = rows + tf.range(self.batch) * self.stride
        unused = self.size - 1
        main = tf.where(use, at, unused)
        mirror = tf.where(use & (rows < self.mirror), at + self.rows, unused)
        return tf.reshape(main, [-1]), tf.reshape(mirror, [-1])


class RingSpan(NamedTuple):
    """Stored steps of every environment, int32 ``[]`` each: see the module."""

    head: tf.Tensor
    filled: tf.Tensor


def advance(layout: RingLayout, span: RingSpan, broken: tf.Tensor) -> RingSpan:
    """Return the span after a collect.

    After a break the collect's first step is a row of its own; otherwise it is the
    newest step again.

    Args:
      layout: sizes.
      span: span before.
      broken: bool ``[]``.
    """
    new = layout.steps + tf.cast(broken, tf.int32)
    head = (span.head + new) % layout.rows
    return RingSpan(head, tf.minimum(span.filled + new, layout.room))


def starts(layout: RingLayout, span: RingSpan) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the rows that may start a window: int32 ``[]`` first row and count."""
    first = (span.head - span.filled + layout.stack) % layout.rows
    count = span.filled - (layout.stack - 1) - (layout.window - 1)
    return first, tf.maximum(count, 0)


def changes(layout: RingLayout, before: RingSpan, after: RingSpan) -> tuple:
    """Return which rows begin and which cease to be starts of windows.

    Args:
      layout: sizes.
      before: span before the collect.
      after: span after it; equal to ``before`` if the collect is void.

    Returns:
      Two pairs, for entering and leaving rows: int32 ``[k+1]`` rows, bool ``[k+1]``
      whether each is one.
    """
    first, count = starts(layout, before)
    new_first, new_count = starts(layout, after)
    leaving = tf.minimum((new_first - first) % layout.rows, count)
    entering = new_count - (count - leaving)
    offset = tf.range(layout.steps + 1)
    end = new_first + new_count - entering
    return (end + offset, offset < entering), (first + offset, offset < leaving)
