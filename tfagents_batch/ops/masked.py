"""Statistics over the valid entries of a tensor.

``mask`` is bool and has the shape of ``x`` or of its leading axes. Masked
entries, NaN and infinity included, reach neither a value nor a gradient.
"""

from __future__ import annotations

import builtins

import tensorflow as tf

# Finite, so that 0 * log(0) stays 0; so low that its probability is exactly 0.
INVALID_LOGIT = -1e9


def safe(x: tf.Tensor, mask: tf.Tensor, value: float = 0.0) -> tf.Tensor:
    """Replace masked entries by ``value``, before an operation that must not see them.

    The gradient of ``tf.where(mask, f(x), 0)`` is NaN where ``f`` has none, because
    0 * NaN is NaN; ``f(safe(x, mask))`` has gradient 0 there.

    Args:
      x: f32 ``[..., *]``.
      mask: bool, leading axes of ``x``.
      value: the replacement, inside the domain of the operation that follows.
    """
    return tf.where(_as_flag(mask, x), x, tf.cast(value, x.dtype))


def sum(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """f32 ``[]``: sum over valid entries."""
    return tf.reduce_sum(safe(x, mask))


def mean(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """f32 ``[]``: mean over valid entries; 0 if there are none."""
    return sum(x, mask) / _count(mask, x)


def mean_over_time(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """f32 ``[B]`` of ``[T, B]``: mean over each column's valid entries; 0 if none."""
    count = tf.reduce_sum(tf.cast(mask, x.dtype), 0)
    return tf.reduce_sum(safe(x, mask), 0) / tf.maximum(count, 1)


def moments(x: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and (population) variance over valid entries, f32 ``[]`` each; 0 if none.

    The mean is corrected by the mean of the residuals, so that equal entries
    have a variance of 0 whatever their size.
    """
    rough, centered = _center(x, mask)
    return rough + mean(x - rough, mask), mean(tf.square(centered), mask)


def standardize(x: tf.Tensor, mask: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Shift and scale valid entries to mean 0 and standard deviation 1.

    Args:
      x: f32 ``[...]``.
      mask: bool, leading axes of ``x``.
      epsilon: smallest standard deviation to divide by.

    Returns:
      f32 ``[...]``, 0 where masked out; all 0 where the valid entries are equal.
    """
    _, centered = _center(x, mask)
    variance = mean(tf.square(centered), mask)
    # The maximum is inside the root: the derivative of a root at 0 is infinite.
    return centered / tf.sqrt(tf.maximum(variance, epsilon**2))


def logits(logits: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Give invalid choices a logit of probability 0.

    A row without a valid choice counts as all valid: terminal states often have
    none, and their action is ignored.

    Args:
      logits: f32 ``[..., n]``.
      mask: bool (or numbers, where not 0 is valid), broadcast to ``[..., n]``.
    """
    mask = tf.cast(mask, tf.bool)
    allowed = mask | ~tf.reduce_any(mask, axis=-1, keepdims=True)
    return tf.where(allowed, logits, tf.cast(INVALID_LOGIT, logits.dtype))


def _center(x: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """A first mean, and ``x`` less its mean, 0 where masked out."""
    rough = mean(x, mask)
    centered = safe(x - rough, mask)
    return rough, safe(centered - mean(centered, mask), mask)


def _as_flag(mask: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """The mask as bool, with axes of 1 up to the rank of ``x``."""
    mask = tf.cast(mask, tf.bool)
    for _ in builtins.range(x.shape.rank - mask.shape.rank):
        mask = mask[..., tf.newaxis]
    return mask


def _count(mask: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Number of valid entries of ``x``, at least 1."""
    flag = _as_flag(mask, x)
    if flag.shape != x.shape:
        flag = tf.broadcast_to(flag, tf.shape(x))
    return tf.maximum(tf.reduce_sum(tf.cast(flag, x.dtype)), 1)
