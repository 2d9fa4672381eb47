"""Statistics over the valid entries of a tensor.

``mask`` is bool and has the shape of ``x`` or of its leading axes. Masked entries,
including NaN and infinity, affect neither a value nor a gradient.
"""

from __future__ import annotations

import tensorflow as tf

# Finite, so that 0 * log(0) is 0; low enough for a probability of exactly 0.
INVALID_LOGIT = -1e9


def safe(x: tf.Tensor, mask: tf.Tensor, value: float = 0.0) -> tf.Tensor:
    """Replace masked entries by ``value``, before an operation that cannot take them.

    Where ``f`` has no gradient, ``tf.where(mask, f(x), 0)`` has a gradient of NaN,
    because 0 * NaN is NaN; ``f(safe(x, mask))`` has a gradient of 0. So ``value`` is in
    the domain of f.
    """
    return tf.where(_as_flag(mask, x), x, tf.cast(value, x.dtype))


def sum(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Return the sum over valid entries, f32 ``[]``."""
    return tf.reduce_sum(safe(x, mask))


def mean(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Return the mean over valid entries, f32 ``[]``; 0 if there are none."""
    return sum(x, mask) / _count(mask, x)


def mean_over_time(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Return the mean over each column's valid entries, f32 ``[B]``; 0 if none."""
    count = tf.reduce_sum(tf.cast(mask, x.dtype), 0)
    return tf.reduce_sum(safe(x, mask), 0) / tf.maximum(count, 1)


def moments(x: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean and population variance over valid entries, f32 ``[]``; 0 if none.

    The mean is corrected by the mean of the residuals, so that equal entries have a
    variance of exactly 0.
    """
    rough, centered = _center(x, mask)
    return rough + mean(x - rough, mask), mean(tf.square(centered), mask)


def standardize(x: tf.Tensor, mask: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Shift and scale valid entries to mean 0 and standard deviation 1.

    ``epsilon`` is the lower bound of the standard deviation. The result has the shape
    of ``x``: 0 where masked out, and all 0 where the valid entries are equal.
    """
    _, centered = _center(x, mask)
    variance = mean(tf.square(centered), mask)
    # The maximum is inside the root: the derivative of a root at 0 is infinite.
    return centered / tf.sqrt(tf.maximum(variance, epsilon**2))


def rescale(x: tf.Tensor, mask: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Scale valid entries to a root mean square of 1; their mean is not removed.

    ``epsilon`` is the lower bound of the root mean square. Masked entries become 0.
    """
    x = safe(x, mask)
    return x / tf.sqrt(tf.maximum(mean(tf.square(x), mask), epsilon**2))


def logits(logits: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Give invalid choices a probability of 0.

    In a row without a valid choice all choices are valid: terminal states often have
    no valid choice, and their action is ignored. The mask is bool, or numbers where 0
    is invalid, and is broadcast to the logits, f32 ``[..., n]``.
    """
    mask = tf.cast(mask, tf.bool)
    allowed = mask | ~tf.reduce_any(mask, axis=-1, keepdims=True)
    return tf.where(allowed, logits, tf.cast(INVALID_LOGIT, logits.dtype))


def _center(x: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return a rough mean, and ``x`` minus its exact mean, 0 where masked out."""
    rough = mean(x, mask)
    centered = safe(x - rough, mask)
    return rough, safe(centered - mean(centered, mask), mask)


def _as_flag(mask: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Return the mask as bool, with trailing axes of size 1 up to the rank of ``x``."""
    mask = tf.cast(mask, tf.bool)
    for _ in range(x.shape.rank - mask.shape.rank):
        mask = tf.expand_dims(mask, -1)
    return mask


def _count(mask: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Return the number of valid entries of ``x``, at least 1."""
    flag = _as_flag(mask, x)
    if flag.shape != x.shape:
        flag = tf.broadcast_to(flag, tf.shape(x))
    return tf.maximum(tf.reduce_sum(tf.cast(flag, x.dtype)), 1)
