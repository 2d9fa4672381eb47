"""Policies that imitate logged actions as far as these are better than others.

Weights of actions and errors of values, f32 of one shape ``[...]``.
"""

from __future__ import annotations

import math

import tensorflow as tf

from tfagents_batch.ops import masked


def exponential(x: tf.Tensor, most: float) -> tf.Tensor:
    """Return min(exp(x), most), without a gradient.

    With x = A(s, a) / beta it is the weight of an action in advantage-weighted
    regression (Peng et al. 2019, arXiv:1910.00177, eq. 9).
    """
    return tf.stop_gradient(tf.exp(tf.minimum(x, math.log(most))))


def positive(advantage: tf.Tensor) -> tf.Tensor:
    """Return 1 where the advantage is above 0, else 0 (Wang et al. 2020, eq. 3)."""
    return tf.cast(advantage > 0, tf.float32)


def expectile(error: tf.Tensor, share: float | tf.Tensor) -> tf.Tensor:
    """Return |share - 1[error < 0]| error^2 (Kostrikov et al. 2021, eq. 5).

    Its minimum over a constant is the expectile of the targets: their mean for a share
    of 1/2, and near their maximum for a share near 1. The error is target - prediction.
    """
    weight = tf.where(error < 0, 1 - share, share)
    return tf.stop_gradient(weight) * tf.square(error)


def weighted_likelihood(
    log_prob: tf.Tensor, weight: tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """Return the loss -mean(w ln pi(a | s)) of logged actions ``[N]``, f32 ``[]``."""
    return -masked.mean(tf.stop_gradient(weight) * masked.safe(log_prob, mask), mask)


def with_imitation(
    q: tf.Tensor,
    action: tf.Tensor,
    logged: tf.Tensor,
    alpha: float | tf.Tensor,
    mask: tf.Tensor,
) -> tf.Tensor:
    """Return -mean(lambda Q(s, pi(s))) + mean((pi(s) - a)^2), f32 ``[]``.

    lambda = alpha / mean|Q(s, pi(s))| is a constant (Fujimoto and Gu 2021,
    arXiv:2106.06860, eq. 5).

    Args:
      q: f32 ``[N]``, Q(s, pi(s)).
      action: f32 ``[N, A]``, pi(s), scaled to [-1, 1].
      logged: f32 ``[N, A]``, a, likewise.
      alpha: weight of values.
      mask: bool ``[N]``, rows that count.
    """
    size = tf.stop_gradient(masked.mean(tf.abs(q), mask))
    values = tf.math.divide_no_nan(alpha * masked.mean(q, mask), size)
    return masked.mean(tf.square(action - logged), mask) - values
