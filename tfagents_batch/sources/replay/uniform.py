"""Uniform sampling of stored transitions, by rejection."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.metrics import Metrics
from tfagents_batch.sources.replay import layout
from tfagents_batch.sources.replay.sampler import Drawn, Ring

# Even if half of the rows are no transitions, one slot of 10^7 batches stays invalid.
_TRIES = 10_000  # enough for one valid number among thousands


class Uniform(tf.Module):
    """Sampler that draws every stored transition with the same probability.

    Args:
      batch_size: N, transitions of a sample.
    """

    def __init__(self, batch_size: int):
        super().__init__()
        self._batch_size = batch_size

    def draw(self, ring: Ring, seed: tf.Tensor, step: tf.Tensor) -> Drawn:
        """Draw N transitions, see ``sampler.Sampler``."""
        del step
        first, count = layout.starts(ring.sizes, ring.span)
        rows = tf.maximum(count, 1)

        def place(numbers):
            return numbers // rows, first + numbers % rows

        numbers, valid = rejected(
            self._batch_size,
            seeds.key(seed, "replay"),
            tf.where(ring.size > 0, ring.sizes.batch * count, 0),
            lambda numbers: ring.is_transition(*place(numbers)),
        )
        return Drawn(*place(numbers), valid, tf.ones([self._batch_size]))

    def change(self, leaves: tf.Tensor, entered: tf.Tensor) -> None:
        """Do nothing: all transitions are alike."""

    def feedback(self, priority: tf.Tensor) -> None:
        """Do nothing: priorities are not used."""

    def metrics(self, size: tf.Tensor) -> Metrics:
        """Return no metrics."""
        del size
        return {}

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return no variables: it has no state."""
        return {}


def integers(count: int, key: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    """Draw int32 ``[count]`` uniformly from [0, high), for any positive int32.

    floor(x high / 2^64) for 64 random bits x, so probabilities differ by less than
    2^-32 of their size.
    """
    low, top = tf.unstack(tf.cast(seeds.words([2, count], key), tf.uint64))
    high = tf.cast(high, tf.uint64)
    shift = tf.constant(32, tf.uint64)
    carry = tf.bitwise.right_shift(low * high, shift)
    return tf.cast(tf.bitwise.right_shift(top * high + carry, shift), tf.int32)


def rejected(
    count: int, key: tf.Tensor, high: tf.Tensor, valid: Callable
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draw uniformly from the valid numbers below ``high``.

    Each slot draws until its number is valid, so all valid numbers are equally likely.

    Args:
      count: N, number of slots.
      key: int32 ``[2]``.
      high: int32 ``[]``; 0 makes every draw invalid.
      valid: from int32 ``[N]`` numbers to bool ``[N]``.

    Returns:
      int32 ``[N]``, and bool ``[N]``: false where no valid number was found.
    """

    def draw(i):
        numbers = integers(count, seeds.fold(key, i), tf.maximum(high, 1))
        return numbers, valid(numbers) & (high > 0)

    def again(i, numbers, good):
        new, fine = draw(i)
        return i + 1, tf.where(good, numbers, new), good | fine

    _, numbers, good = tf.while_loop(
        lambda i, numbers, good: (i < _TRIES) & ~tf.reduce_all(good) & (high > 0),
        again,
        (tf.constant(1), *draw(tf.constant(0))),
        name="draws",
    )
    return numbers, good
