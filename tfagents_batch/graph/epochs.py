"""Epochs of shuffled minibatches, as a loop in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.metrics import UPDATES, Metrics
from tfagents_batch.types import Nest

Step = Callable[[Nest, tf.Tensor, Nest], Nest]
_ROUNDS = 8  # with 6, orders of a dozen rows were measurably uneven in 200,000 draws
# Walks of up to 2^6 steps. Over half of the words are below the count: a longer one has
# probability 2^-64.
_DOUBLINGS = 6
_ONE = np.uint32(1)


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
    size = nest.static_size(mask)
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
    valid_rows = tf.minimum(true_first(mask), size - 1)

    def epoch(index, carry):
        order = random_order(size, some, seeds.fold(key, index))
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
        return index < count if stop is None else (index < count) & ~stop(carry)

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
    means = {name: total / tf.maximum(count, 1) for name, total in sums.items()}
    return means | {UPDATES: count}


def random_order(size: int, count: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """Return the numbers below ``count`` in a random order, int32 ``[size]``.

    It does not sort: under XLA, sorting takes longer than an update. A keyed bijection
    of k-bit words, where 2^k is the next power of two, is applied to each position
    until the result is less than the count ("cycle walking": Black and Rogaway 2002,
    section 3). The result is again a bijection. Walks are doubled in length by looking
    up where they lead, so that their number is known when XLA compiles them.

    Entries after the first ``count``, at most ``size``, are arbitrary numbers in
    ``[0, 2 * size)``. Eager, graph and compiled code give the same order.
    """
    words = tf.unstack(seeds.words([2 * _ROUNDS], key))
    top = tf.cast(tf.maximum(count - 1, 1), tf.uint32)
    for shift in (1, 2, 4, 8, 16):  # all bits below the highest one
        top |= tf.bitwise.right_shift(top, tf.constant(shift, tf.uint32))
    set_bits = tf.bitwise.right_shift(top, tf.cast(tf.range(32), tf.uint32)) & _ONE
    half = (tf.reduce_sum(set_bits) + _ONE) // tf.constant(2, tf.uint32)

    def mix(x):
        for addend, factor in zip(words[::2], words[1::2], strict=True):
            x = (x + addend) * (factor | _ONE) & top  # odd factors have inverses
            x ^= tf.bitwise.right_shift(x, half)
        return x

    start = tf.range(1 << max(1, (size - 1).bit_length()))
    x = tf.cast(mix(tf.cast(start, tf.uint32)), tf.int32)
    # A loop: XLA computes some of the lookups many times over if they are unrolled.
    _, x = tf.while_loop(
        lambda index, _: index < _DOUBLINGS,
        lambda index, x: (index + 1, tf.where(x >= count, tf.gather(x, x), x)),
        (0, x),
        parallel_iterations=1,
        name="walk",
    )
    return x[:size]


def true_first(mask: tf.Tensor) -> tf.Tensor:
    """Return the indices where a mask is true, in order, and then N; int32 ``[N]``."""
    size = nest.static_size(mask)
    seen = tf.cumsum(tf.cast(mask, tf.int32))
    wanted = tf.range(1, size + 1)
    index = tf.zeros([size], tf.int32)
    # Binary search for the first index with ``wanted`` true entries up to it.
    for bit in reversed(range(size.bit_length())):
        step = 1 << bit
        probe = tf.gather(seen, tf.minimum(index + step - 1, size - 1))
        index = tf.where((probe < wanted) & (index + step <= size), index + step, index)
    return index
