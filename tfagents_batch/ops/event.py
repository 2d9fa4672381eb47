"""Operations on the trailing axes that form one event of a distribution."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def sum(x: tf.Tensor, event_ndims: int) -> tf.Tensor:
    """Sum over the trailing ``event_ndims`` axes."""
    return tf.reduce_sum(x, list(range(-event_ndims, 0))) if event_ndims else x


def all(x: tf.Tensor, event_ndims: int) -> tf.Tensor:
    """Return whether all of the trailing ``event_ndims`` axes are true."""
    return tf.reduce_all(x, list(range(-event_ndims, 0))) if event_ndims else x


def reshape(x: tf.Tensor, event_ndims: int, to: Sequence[int]) -> tf.Tensor:
    """Reshape the trailing ``event_ndims`` axes; keep the leading axes."""
    to = [int(size) for size in to]
    cut = x.shape.rank - event_ndims
    lead, event = x.shape[:cut], x.shape[cut:]
    if event == to:
        return x
    if lead.is_fully_defined():
        return tf.reshape(x, [*lead, *to])
    dynamic = tf.reshape(x, tf.concat([tf.shape(x)[: len(lead)], to], 0))
    return tf.ensure_shape(dynamic, [*lead, *to])
