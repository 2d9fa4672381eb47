"""Targets and losses of temporal-difference learning of action values.

Shapes: N rows, A actions. Targets are constants: no gradient flows into them.
"""

from __future__ import annotations

from typing import Literal

import tensorflow as tf

from tfagents_batch.ops import masked

Loss = Literal["huber", "squared"]


def chosen(q: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Return Q(s, a) of the given actions, f32 ``[N]``.

    Args:
      q: f32 ``[N, A]``.
      action: int32 ``[N]``.
    """
    # A product with a one-hot vector: its gradient needs no scatter.
    return tf.reduce_sum(q * tf.one_hot(action, q.shape[-1]), -1)


def target(
    reward: tf.Tensor, factor: tf.Tensor, q: tf.Tensor, action: tf.Tensor
) -> tf.Tensor:
    """Return y = R + factor Q'(s', a'), f32 ``[N]``.

    With a' = argmax Q'(s', .) it is the target of DQN (Mnih et al. 2015, algorithm 1);
    with the argmax of the learned network, that of double DQN (van Hasselt et al. 2016,
    arXiv:1509.06461, eq. 4).

    Args:
      reward: f32 ``[N]``, discounted sum of the rewards up to s'.
      factor: f32 ``[N]``, product of the discounts; 0 if s' is terminal.
      q: f32 ``[N, A]``, Q'(s', .) of the target network.
      action: int32 ``[N]``, a'.
    """
    value = chosen(q, action)
    return tf.stop_gradient(reward + tf.math.multiply_no_nan(value, factor))


def loss(
    error: tf.Tensor, mask: tf.Tensor, weight: tf.Tensor, kind: Loss = "huber"
) -> tf.Tensor:
    """Return the weighted mean loss of errors, f32 ``[]``.

    Args:
      error: f32 ``[N]``, target - Q(s, a).
      mask: bool ``[N]``, rows that count.
      weight: f32 ``[N]``, importance weights.
      kind: "squared", error^2 / 2; or "huber", the same up to an error of 1 and linear
        beyond it, so that no gradient is larger than 1.
    """
    error = masked.safe(error, mask)
    size = tf.abs(error)
    if kind == "huber":
        near = tf.minimum(size, 1.0)
        each = near * (size - 0.5 * near)
    else:
        each = 0.5 * tf.square(error)
    return masked.mean(each * tf.stop_gradient(weight), mask)
