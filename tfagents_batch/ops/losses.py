"""Losses of actor-critic methods: scalars, means over the valid entries.

``mask`` is bool ``[...]``; all other arguments are f32 ``[...]`` of the same shape
unless documented otherwise. Advantages, targets and data of the behavior policy are
constants: no gradient flows into them. NaN in masked entries has no effect.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from tfagents_batch.ops import masked

# Ratios stay within e^-20 .. e^20, so that one extreme row cannot overflow the loss
# or the gradient norm; outside this range the gradient is 0.
_LOG_RATIO_LIMIT = 20.0


class Surrogate(NamedTuple):
    """Clipped surrogate loss, f32 ``[]``, and the share of rows outside the clip."""

    loss: tf.Tensor
    clip_fraction: tf.Tensor


def policy_gradient(
    log_prob: tf.Tensor, advantage: tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """-mean(A log pi(a|s)) (Williams 1992; Sutton et al. 1999)."""
    log_prob = masked.safe(log_prob, mask)
    return -masked.mean(log_prob * tf.stop_gradient(advantage), mask)


def importance_surrogate(
    log_prob: tf.Tensor,
    behavior_log_prob: tf.Tensor,
    advantage: tf.Tensor,
    mask: tf.Tensor,
) -> tf.Tensor:
    """-mean(r A), r = pi(a|s) / mu(a|s) (Schulman et al. 2017, eq. 6).

    It is not clipped; combine it with a bound on the divergence.
    """
    ratio = tf.exp(_log_ratio(log_prob, behavior_log_prob, mask))
    return -masked.mean(ratio * tf.stop_gradient(advantage), mask)


def clipped_surrogate(
    log_prob: tf.Tensor,
    behavior_log_prob: tf.Tensor,
    advantage: tf.Tensor,
    clip_ratio: float | tf.Tensor,
    mask: tf.Tensor,
) -> Surrogate:
    """-mean(min(r A, clip(r, 1 - e, 1 + e) A)), r = pi(a|s) / mu(a|s).

    Schulman et al. 2017 (arXiv:1707.06347), eq. 7. The gradient is 0 where r is outside
    the clip range and moving further away would reduce the loss. ``clip_ratio`` is e.
    """
    advantage = tf.stop_gradient(advantage)
    ratio = tf.exp(_log_ratio(log_prob, behavior_log_prob, mask))
    clipped = tf.clip_by_value(ratio, 1 - clip_ratio, 1 + clip_ratio)
    outside = tf.cast(tf.abs(ratio - 1) > clip_ratio, ratio.dtype)
    loss = -masked.mean(tf.minimum(ratio * advantage, clipped * advantage), mask)
    return Surrogate(loss, tf.stop_gradient(masked.mean(outside, mask)))


def value(
    value: tf.Tensor,
    target: tf.Tensor,
    mask: tf.Tensor,
    old_value: tf.Tensor | None = None,
    clip: float | tf.Tensor | None = None,
) -> tf.Tensor:
    """Half the mean squared error, 1/2 mean((V - G)^2).

    With ``clip`` it is 1/2 mean(max((V - G)^2, (V_clip - G)^2)), where V_clip is V
    clipped to within ``clip`` of the old value. This is from OpenAI Baselines' PPO2,
    not from the paper.

    Args:
      value, target, mask: V(s), G; see the module.
      old_value: V(s) at the time of the rollout; used only with ``clip``.
      clip: largest change that reduces the loss, in units of the value; None disables
        clipping.
    """
    target = tf.stop_gradient(target)
    value = masked.safe(value, mask)
    error = tf.square(value - target)
    if clip is not None:
        if old_value is None:
            raise ValueError("losses.value got clip without old_value; pass both")
        old = tf.stop_gradient(old_value)
        clipped = old + tf.clip_by_value(value - old, -clip, clip)
        error = tf.maximum(error, tf.square(clipped - target))
    return 0.5 * masked.mean(error, mask)


def entropy_bonus(
    entropy: tf.Tensor, scale: float | tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """-scale mean(H), a loss term that rewards exploration."""
    return -scale * masked.mean(entropy, mask)


def approx_kl(
    log_prob: tf.Tensor, behavior_log_prob: tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """Estimate KL(mu || pi) from actions of mu: mean((r - 1) - log r), r = pi / mu.

    Unbiased, never negative and of low variance (k3 in J. Schulman, "Approximating
    KL divergence", 2020). A metric: no gradient flows through it.
    """
    log_ratio = _log_ratio(log_prob, behavior_log_prob, mask)
    estimate = tf.math.expm1(log_ratio) - log_ratio
    return tf.stop_gradient(masked.mean(estimate, mask))


def explained_variance(
    prediction: tf.Tensor, target: tf.Tensor, mask: tf.Tensor
) -> tf.Tensor:
    """1 - Var(G - V) / Var(G): 1 is perfect, 0 is no better than a constant.

    A metric: no gradient flows through it. It is 0 if the target is constant.
    """
    _, unexplained = masked.moments(target - prediction, mask)
    _, variance = masked.moments(target, mask)
    share = tf.math.divide_no_nan(variance - unexplained, variance)
    return tf.stop_gradient(share)


def _log_ratio(log_prob, behavior_log_prob, mask):
    """log pi - log mu, 0 where masked out, clipped so that ``exp`` cannot overflow."""
    difference = log_prob - tf.stop_gradient(behavior_log_prob)
    log_ratio = masked.safe(difference, mask)
    return tf.clip_by_value(log_ratio, -_LOG_RATIO_LIMIT, _LOG_RATIO_LIMIT)
