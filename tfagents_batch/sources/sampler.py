"""Samplers, which choose the transitions of the next batch; the uniform one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.metrics import Metrics
from tfagents_batch.sources import replay_layout
from tfagents_batch.sources.replay_layout import RingLayout, RingSpan

# One slot in 16 repeats another one if half of the rows are no transitions, as with
# episodes of one step; one in 100,000 if a row in 20 is none.
_TRIES = 4


class Ring(NamedTuple):
    """The stored steps as a sampler sees them."""

    sizes: RingLayout  # sizes of the storage
    span: RingSpan  # stored steps of every environment
    size: tf.Tensor  # int32 [], number of transitions that can be drawn
    # From int32 [N] environments and rows to bool [N]: whether a transition leads from
    # a row to the next one
    is_transition: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class DrawnTransitions(NamedTuple):
    """Transitions of a batch, ``[N]`` each."""

    # env, row: int32, environments and rows of the first steps
    env: tf.Tensor
    row: tf.Tensor
    valid: tf.Tensor  # bool, false where nothing could be drawn
    weight: tf.Tensor  # f32, importance weights


class Sampler(Protocol):
    """A tf.Module that draws stored transitions: ``Uniform`` or ``Prioritized``."""

    def draw(self, ring: Ring, seed: tf.Tensor, step: tf.Tensor) -> DrawnTransitions:
        """Draw N transitions by an int32 ``[]`` seed.

        ``step`` is i64 ``[]``, environment steps of the run, for schedules.
        """
        ...

    def change(self, leaves: tf.Tensor, entered: tf.Tensor) -> None:
        """Learn which transitions entered, and which (``entered`` is false) left.

        Leaves are env * rows + row, int32 ``[n]``; batch * rows for entries that change
        nothing.
        """
        ...

    def feedback(self, priority: tf.Tensor, used: tf.Tensor | None = None) -> None:
        """Receive the priorities of the newest sample after its update, f32 ``[N]``.

        Where ``used``, bool ``[N]``, is false, a transition was not in the batch.
        """
        ...

    def metrics(self, size: tf.Tensor) -> Metrics:
        """Return metrics for the log; ``size`` is ``Ring.size`` as f32."""
        ...

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return the state by name."""
        ...


class Uniform(tf.Module):
    """Sampler that draws N stored transitions with the same probability each."""

    def __init__(self, batch_size: int):
        super().__init__()
        self._batch_size = batch_size

    def draw(self, ring: Ring, seed: tf.Tensor, step: tf.Tensor) -> DrawnTransitions:
        """Draw N transitions, see ``sampler.Sampler``."""
        del step
        first, count = replay_layout.starts(ring.sizes, ring.span)
        rows = tf.maximum(count, 1)

        def place(numbers):
            return numbers // rows, first + numbers % rows

        numbers, valid = rejected(
            self._batch_size,
            seeds.key(seed, "replay"),
            tf.where(ring.size > 0, ring.sizes.batch * count, 0),
            lambda numbers: ring.is_transition(*place(numbers)),
        )
        return DrawnTransitions(*place(numbers), valid, tf.ones([self._batch_size]))

    def change(self, leaves: tf.Tensor, entered: tf.Tensor) -> None:
        """Do nothing: all transitions are alike."""

    def feedback(self, priority: tf.Tensor, used: tf.Tensor | None = None) -> None:
        """Do nothing: priorities are not used."""

    def metrics(self, size: tf.Tensor) -> Metrics:
        """Return no metrics."""
        del size
        return {}

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return no variables: it has no state."""
        return {}


def rejected(
    count: int, key: tf.Tensor, high: tf.Tensor, valid: Callable
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draw uniformly from the valid numbers below ``high``.

    Each slot draws until its number is valid, so all valid numbers are equally likely;
    but ``_TRIES`` times at most, so that XLA knows the number of draws. A slot without
    a valid number takes that of the first slot with one. Return int32 ``[N]``, and bool
    ``[N]``: false if no valid number was found.

    Args:
      count: N, number of slots.
      key: int32 ``[2]``.
      high: int32 ``[]``; 0 makes every draw invalid.
      valid: from int32 ``[tries, N]`` numbers to bool ``[tries, N]``.
    """
    draws = seeds.indices(_TRIES * count, key, tf.maximum(high, 1))
    draws = tf.reshape(draws, [_TRIES, count])
    good = valid(draws) & (high > 0)
    tries = list(zip(tf.unstack(draws), tf.unstack(good), strict=True))
    numbers, is_found = tries[-1]
    for earlier, fine in reversed(tries[:-1]):
        numbers, is_found = tf.where(fine, earlier, numbers), fine | is_found
    # Not a slice: XLA would compile anew for each value of a seed that is an argument.
    other = tf.gather(numbers, tf.argmax(is_found, output_type=tf.int32))
    return tf.where(is_found, numbers, other), tf.fill([count], tf.reduce_any(is_found))
