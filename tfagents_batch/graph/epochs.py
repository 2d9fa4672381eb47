"""Epochs of shuffled minibatches, as a loop in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.graph import permutation
from tfagents_batch.metrics import UPDATES, Metrics
from tfagents_batch.types import Nest

Step = Callable[[Nest, tf.Tensor, Nest], Nest]


def loop(
    step: Step,
    carry: Nest,
    rows: Nest,
    mask: tf.Tensor,
    *,
    epochs: int,
    minibatch_size: int | None,
    seed: int | tf.Tensor,
    drop_last: bool = False,
    stop: Callable[[Nest], tf.Tensor] | None = None,
) -> Nest:
    """Visit every valid row once per epoch, in a new random order.

    With V valid rows an epoch has n = ceil(V / minibatch_size) minibatches; masked rows
    are not counted. Minibatch sizes differ by at most one, so none is a small
    remainder. With ``drop_last`` there are n = floor(V / minibatch_size) minibatches of
    exactly that size, and each epoch drops other rows. If V is less than
    ``minibatch_size`` there is one smaller minibatch.

    All shapes are static: a minibatch has ``minibatch_size`` rows (``N`` if that is
    less) and a mask; the content of its masked rows is arbitrary.

    Args:
      step: called as ``step(minibatch, minibatch_mask, carry)``; returns the next
        carry with the same structure, shapes and dtypes. It may assign variables.
      carry: nest of tensors or numbers, such as sums of metrics or a stop flag.
      rows: nest of ``[N, ...]``.
      mask: bool ``[N]``.
      epochs: passes over the rows.
      minibatch_size: number of rows; None for all rows in their order, so that an epoch
        is one step without shuffling or copying.
      drop_last: drop the last partial minibatch.
      seed: int or int32 scalar; the orders depend on it and on ``N``.
      stop: function from the carry to bool ``[]``; true ends this epoch and all later
        ones. None never stops.

    Returns:
      The last carry.
    """
    if minibatch_size is None:
        count = tf.where(tf.reduce_any(mask), epochs, 0)
        return _repeat("epochs", lambda _, x: step(rows, mask, x), carry, count, stop)
    size = mask.shape[0]
    assert size is not None
    width = min(minibatch_size, size)
    most = -(-size // width)  # number of minibatches if all rows are valid
    valid = tf.reduce_sum(tf.cast(mask, tf.int32))
    if drop_last:
        count = tf.maximum(valid // width, tf.minimum(valid, 1))
    else:
        count = (valid + width - 1) // width
    key = seeds.key(seed, "minibatch")

    # Minibatch m takes positions m, m + n, m + 2n, ... of the shuffled valid rows.
    minibatch = tf.range(most)[:, tf.newaxis]
    position = minibatch + count * tf.range(width)
    taken = position < valid
    # Without valid rows an epoch draws an order of one row and visits none. XLA would
    # not know the number of epochs if it depended on the valid rows.
    some = tf.maximum(valid, 1)
    position = tf.minimum(position, some - 1)
    valid_rows = tf.minimum(permutation.true_first(mask), size - 1)

    def epoch(index, carry):
        order = permutation.random_order(size, some, seeds.fold(key, index))
        row = tf.gather(valid_rows, tf.gather(order, position))
        shuffled = nest.gather(rows, row)  # the only large copy

        def visit(m, carry):
            return step(nest.gather(shuffled, m), taken[m], carry)

        return _repeat("minibatches", visit, carry, count, stop)

    return _repeat("epochs", epoch, carry, epochs, stop)


def _repeat(
    name: str,
    body: Callable[[tf.Tensor, Nest], Nest],
    carry: Nest,
    count: int | tf.Tensor,
    stop: Callable[[Nest], tf.Tensor] | None,
) -> Nest:
    """Repeat ``carry = body(index, carry)`` for each index below ``count``."""

    def goes_on(index, carry):
        on = index < count
        return on if stop is None else on & ~stop(carry)

    _, carry = tf.while_loop(
        goes_on,
        lambda index, carry: (index + 1, body(index, carry)),
        (0, nest.map(tf.convert_to_tensor, carry)),
        parallel_iterations=1,
        name=name,
    )
    return carry


def means(
    step: Callable[[Nest, tf.Tensor], Metrics],
    names: Sequence[str],
    rows: Nest,
    mask: tf.Tensor,
    *,
    stop: Callable[[Metrics], tf.Tensor] | None = None,
    **options: Any,
) -> Metrics:
    """Visit rows as ``loop`` does; return the means of metrics, and how many steps.

    Args:
      step: called as ``step(minibatch, minibatch_mask)``; returns scalars.
      names: names of the metrics to average.
      rows, mask, options: see ``loop``.
      stop: function from the metrics of a step to bool ``[]``; true ends all epochs.
    """

    def visit(rows, mask, carry):
        sums, count, stopped = carry
        metrics = step(rows, mask)
        if stop is not None:
            stopped = stop(metrics)
        sums = {name: total + metrics[name] for name, total in sums.items()}
        return sums, count + 1, stopped

    sums, count, _ = loop(
        visit,
        (dict.fromkeys(names, 0.0), 0.0, False),
        rows,
        mask,
        stop=None if stop is None else lambda carry: carry[2],
        **options,
    )
    found = {name: total / tf.maximum(count, 1) for name, total in sums.items()}
    return found | {UPDATES: count}
