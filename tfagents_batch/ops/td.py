"""Targets and losses of temporal-difference learning of action values.

Shapes: N rows, A actions. Targets are constants: no gradient flows into them.
"""

from __future__ import annotations

from typing import Literal

import tensorflow as tf

from tfagents_batch.ops import masked
from tfagents_batch.types import Nest

Loss = Literal["huber", "squared"]


def chosen(x: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Return the entries of actions, int32 ``[N]``, f32 ``[N]`` or ``[N, n]``.

    ``x`` is f32 ``[N, A]``, such as Q(s, .), or ``[N, A, n]``.
    """
    # A product with a one-hot vector: its gradient needs no scatter.
    hot = tf.one_hot(action, x.shape[1])
    return tf.reduce_sum(x * (hot if x.shape.rank == 2 else tf.expand_dims(hot, -1)), 1)


def target(reward: tf.Tensor, factor: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Return y = R + factor V(s'), with the shape of ``value``.

    Where the factor is 0, V does not count, whatever it is.

    Args:
      reward: f32 ``[N]``, discounted sum of the rewards up to s'.
      factor: f32 ``[N]``, product of the discounts; 0 if s' is terminal.
      value: f32 ``[N]``, or ``[N, m]``: m returns from s' on.
    """
    while reward.shape.rank < value.shape.rank:
        reward, factor = tf.expand_dims(reward, -1), tf.expand_dims(factor, -1)
    return tf.stop_gradient(reward + tf.math.multiply_no_nan(value, factor))


def log_policy(
    q: tf.Tensor, temperature: float, valid: tf.Tensor | None = None
) -> tf.Tensor:
    """Return ln pi(a | s) of the policy softmax(q / temperature), f32 ``[N, A]``.

    ``valid``, bool ``[N, A]``, has the valid actions; None if all are.
    """
    q = q / temperature
    return tf.nn.log_softmax(q if valid is None else masked.logits(q, valid))


def conservative_gap(
    q: tf.Tensor, action: tf.Tensor, valid: tf.Tensor | None = None
) -> tf.Tensor:
    """Return ln sum_b exp Q(s, b) - Q(s, a) of logged actions a, f32 ``[N]``.

    It is at least 0, and small where a logged action has by far the largest value
    (Kumar et al. 2020, arXiv:2006.04779, eq. 4). See ``chosen`` and ``log_policy``.
    """
    return -chosen(log_policy(q, 1.0, valid), action)


def soft_returns(
    returns: tf.Tensor,
    probability: tf.Tensor,
    q: tf.Tensor,
    temperature: float,
    valid: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the returns of a soft policy, with its entropy bonus.

    Action a is taken with probability pi(a | s), and then -temperature ln pi(a | s) is
    added to its return (Vieillard et al. 2020, arXiv:2007.14430, eq. 1). The mean is
    sum_a pi(a | s) (q(s, a) - temperature ln pi(a | s)).

    Args:
      returns, probability: f32 ``[N, A, n]``, see ``value_distributions``.
      q: f32 ``[N, A]``, their means.
      temperature, valid: see ``log_policy``.

    Returns:
      Returns and probabilities, f32 ``[N, A n]`` each.
    """
    log = log_policy(q, temperature, valid)
    policy = tf.exp(log)
    bonus = tf.where(policy > 0, -temperature * log, 0.0)
    size = returns.shape[1] * returns.shape[2]
    return (
        tf.reshape(returns + bonus[:, :, tf.newaxis], [-1, size]),
        tf.reshape(probability * policy[:, :, tf.newaxis], [-1, size]),
    )


def error_loss(error: tf.Tensor, kind: Loss = "huber") -> tf.Tensor:
    """Return the loss of each error target - Q(s, a), f32 of the same shape.

    "squared" is error^2 / 2; "huber" the same up to an error of 1 and linear beyond it,
    so that no gradient is larger than 1.
    """
    if kind == "squared":
        return 0.5 * tf.square(error)
    size = tf.abs(error)
    near = tf.minimum(size, 1.0)
    return near * (size - 0.5 * near)


def critics_loss(
    q: tf.Tensor, target: tf.Tensor, mask: tf.Tensor, weight: Nest = ()
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the loss of several critics with the same target.

    It is the mean over rows of sum_k (y - Q_k)^2 / 2 (Haarnoja et al. 2018, eq. 5, for
    each critic).

    Args:
      q: f32 ``[K, N]``, Q_k of the actions taken.
      target: f32 ``[N]``, y.
      mask, weight: as of ``loss``.

    Returns:
      The loss, f32 ``[]``, and the absolute error of each row, the mean over critics,
      f32 ``[N]``, 0 where the mask is false.
    """
    losses = tf.reduce_sum(error_loss(target - q, "squared"), 0)
    error = masked.safe(tf.reduce_mean(tf.abs(target - q), 0), mask)
    return loss(losses, mask, weight), error


def loss(losses: tf.Tensor, mask: tf.Tensor, weight: Nest = ()) -> tf.Tensor:
    """Return the weighted mean of the losses of rows, f32 ``[]``.

    Args:
      losses: f32 ``[N]``.
      mask: bool ``[N]``, rows that count.
      weight: f32 ``[N]``, importance weights; ``()`` for none.
    """
    losses = masked.safe(losses, mask)
    if not isinstance(weight, tuple):
        losses *= tf.stop_gradient(weight)
    return masked.mean(losses, mask)


def sampled_gap(
    q: tf.Tensor, log_density: tf.Tensor, logged: tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """Return the mean of ln sum_m exp(Q(s, a_m)) / p(a_m) less Q(s, a), f32 ``[K]``.

    The first term estimates ln of M times the integral of exp(Q(s, a)) over all actions
    (Kumar et al. 2020, arXiv:2006.04779, appendix F; their code leaves ln M out, too).

    Args:
      q: f32 ``[K, N, M]``, of K critics, N rows, M drawn actions in each row.
      log_density: f32 ``[N, M]``, ln p of the actions, as they were drawn.
      logged: f32 ``[K, N]``, Q of the logged actions.
      mask: bool ``[N]``, rows that count.
    """
    excess = tf.reduce_logsumexp(q - log_density, -1) - logged
    return masked.mean_over_time(tf.transpose(excess), mask[:, tf.newaxis])
