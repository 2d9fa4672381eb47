"""Normalization of features as a Keras layer, for acting and for exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import keras
import tensorflow as tf

from tfagents_batch.features.layout import FeatureLayout, layout, normalized, parameters
from tfagents_batch.features.specification import Specification


class FeatureNormalizer(keras.layers.Layer):
    """Layer that normalizes features by a specification.

    ``offline.features.twin`` gives the same numbers without TensorFlow. The parameters
    are weights that are not trained.

    Args:
      specification: types and parameters.
      ids: id of each raw column; None for those of the specification, ascending.

    Attributes:
      layout: raw and normalized columns.
    """

    def __init__(
        self,
        specification: Specification,
        ids: Sequence[int] | None = None,
        **kwargs,
    ):
        super().__init__(dtype="float32", autocast=False, trainable=False, **kwargs)
        self.layout: FeatureLayout = layout(specification, ids)
        self._parameters = []
        for group in self.layout.groups:
            weights = {}
            for name, value in parameters(group).items():
                weights[name] = self.add_weight(
                    shape=value.shape,
                    dtype="float64",
                    trainable=False,
                    name=f"{group.kind.lower()}_{name}",
                )
                weights[name].assign(value)
            self._parameters.append(weights)
        self.built = True

    def call(self, values: tf.Tensor, presence: tf.Tensor | None = None) -> tf.Tensor:
        """Return normalized features.

        Args:
          values: ``[B, F]``; NaN is missing.
          presence: ``[B, F]``, 0 where a feature is missing; None where none is.

        Returns:
          f32 ``[B, layout.size]``; a missing feature is 0 in all of its columns.
        """
        values = tf.cast(values, tf.float64)
        present = tf.logical_not(tf.math.is_nan(values))
        if presence is not None:
            known = tf.cast(presence, tf.float32) != 0  # a type that ONNX compares
            present = tf.logical_and(present, known)
        values = tf.where(present, values, tf.constant(0, tf.float64))
        columns = []
        for group, weights in zip(self.layout.groups, self._parameters, strict=True):
            x = tf.gather(values, group.inputs, axis=1)
            known = {name: weight.value for name, weight in weights.items()}
            y = tf.cast(normalized(group, x, known, _OPERATIONS), tf.float32)
            if not self.layout.missing_as_zero:
                there = tf.gather(present, group.inputs, axis=1)
                y = tf.where(there, y, tf.constant(0.0))
            columns.append(y)
        return tf.concat(columns, 1)


def _quantile(x: tf.Tensor, p: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Return the share of intervals that lie below each number.

    Each interval is 0 for numbers before it, 1 for those after it, and a part inside.
    This needs no search, for which ONNX has no operation.
    """
    x, (zero, one) = x[:, :, tf.newaxis], (tf.constant(k, tf.float64) for k in (0, 1))
    inside = tf.where(x > p["start"], (x - p["start"]) / p["width"], zero)
    return tf.reduce_sum(tf.where(x >= p["end"], one, inside), -1) / p["count"]


def _log(x: tf.Tensor) -> tf.Tensor:
    """Return the logarithm in float64, also in exports to ONNX.

    tf2onnx computes it in float32; a step of Newton's method makes up for that.
    """
    rough = tf.math.log(x)
    return rough + x * tf.exp(-rough) - 1


_OPERATIONS = SimpleNamespace(
    cast=lambda x: tf.cast(x, tf.float64),
    clip=tf.clip_by_value,
    maximum=tf.maximum,
    log=_log,
    quantile=_quantile,
)
