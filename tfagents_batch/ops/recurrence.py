"""Linear recurrences backwards in time, computed for all steps at once.

A loop over the steps would need T small operations in turn, and T kernels on a GPU. In
a graph that XLA does not compile, a loop takes 1750 microseconds for 128 steps of 64
environments, and this takes 120. In a program that XLA compiles for a CPU, a loop takes
25 and this takes 110, but that is one percent of an iteration or less.
"""

from __future__ import annotations

import tensorflow as tf


def reverse_linear(
    factor: tf.Tensor,
    term: tf.Tensor,
    start: tf.Tensor | None = None,
    n: int | None = None,
) -> tf.Tensor:
    """Return y_t = term_t + factor_t y_{t+1}, where y after the last row is 0.

    With ``start`` and ``n``, it is the result of ``n`` rounds y_t <- term_t + factor_t
    y_{t+1} for all t at once; T rounds reach the recurrence.

    Two rounds with (factor, term) equal one round with (factor_t factor_{t+1},
    term_t + factor_t term_{t+1}). So repeated squaring needs log2(n) elementwise passes
    instead of T dependent steps (Hillis and Steele 1986). Sums are pairwise, which has
    smaller rounding errors than a loop.

    A factor of 0 ends an episode: nothing after it is read, even NaN.

    Args:
      factor, term: f32 ``[T, B]``; T is static.
      start: f32 ``[T, B]``, y before the first round; None for ``term``.
      n: rounds, at least 1; None for the recurrence.

    Returns:
      f32 ``[T, B]``.
    """
    size = factor.shape[0]
    assert size is not None
    if n is None or n >= size:
        n = 1 << (size - 1).bit_length()  # reaches the fixed point with fewest passes
    y, step = term if start is None else start, 1
    while 2 * step <= n:
        if n & step:
            y = _round(factor, term, y, step)
        term = _round(factor, term, term, step)
        factor = factor * shift(factor, step)
        step *= 2
    return _round(factor, term, y, step)  # the highest bit of n is always set


def shift(x: tf.Tensor, step: int) -> tf.Tensor:
    """Return x_{t+step}, and 0 after the last row, of ``[T, B]``."""
    return tf.pad(x[step:], [[0, min(step, x.shape[0])], [0, 0]])


def _round(factor: tf.Tensor, term: tf.Tensor, y: tf.Tensor, step: int) -> tf.Tensor:
    return term + tf.math.multiply_no_nan(shift(y, step), factor)
