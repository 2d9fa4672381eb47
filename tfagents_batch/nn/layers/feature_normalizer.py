"""Normalization of features as a Keras layer, for acting and for exports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from tfagents_batch.features.layout import (
    ACTION_MARGIN,
    LARGEST,
    POSITIVE_MARGIN,
    PROBABILITY_MARGIN,
    Group,
    Layout,
    intervals,
    layout,
    parameters,
)
from tfagents_batch.features.specification import Feature, Specification

Weights = dict[str, tf.Tensor]


class FeatureNormalizer(keras.layers.Layer):
    """Layer that normalizes features by a specification.

    ``offline.features.twin`` gives the same numbers without TensorFlow. The parameters
    are weights that are not trained. The layer computes in float64: a small standard
    deviation enlarges rounding errors.

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
        self.layout: Layout = layout(specification, ids)
        self._parameters = []
        for kind, _, features, standardized in self.layout.groups:
            named = _PARAMETERS.get(kind, lambda _: {})(features)
            if standardized:
                named |= {name: parameters(features, name) for name in _MOMENTS}
            found = {}
            for name, value in named.items():
                found[name] = self.add_weight(
                    shape=value.shape,
                    dtype="float64",
                    trainable=False,
                    name=f"{kind.lower()}_{name}",
                )
                found[name].assign(value)
            self._parameters.append(found)
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
            given = tf.cast(presence, tf.float32) != 0  # a type that ONNX compares
            present = tf.logical_and(present, given)
        values = tf.where(present, values, tf.constant(0, tf.float64))
        columns = [
            self._columns(group, weights, values, present)
            for group, weights in zip(self.layout.groups, self._parameters, strict=True)
        ]
        return tf.concat(columns, 1)

    def _columns(
        self,
        group: Group,
        weights: dict[str, keras.Variable],
        values: tf.Tensor,
        present: tf.Tensor,
    ) -> tf.Tensor:
        """Return the columns of the features of one type."""
        kind, index, features, standardized = group
        x = tf.gather(values, index, axis=1)
        if kind == "ENUM":
            sizes = [each.columns for each in features]
            x = tf.gather(x, np.repeat(np.arange(len(sizes)), sizes), axis=1)
            index = np.repeat(index, sizes)
        there = tf.gather(present, index, axis=1)
        y = _TRANSFORMS[kind](x, {k: w.value for k, w in weights.items()})
        if standardized:
            y = (y - weights["mean"].value) / weights["stddev"].value
        if kind != "DO_NOT_PREPROCESS":
            y = tf.clip_by_value(y, -LARGEST, LARGEST)
        y = tf.cast(y, tf.float32)
        return (
            y if self.layout.missing_as_zero else tf.where(there, y, tf.constant(0.0))
        )


def _of_box_cox(features: Sequence[Feature]) -> dict[str, np.ndarray]:
    names = {"power": "boxcox_lambda", "shift": "boxcox_shift"}
    return {ours: parameters(features, name) for ours, name in names.items()}


def _of_enum(features: Sequence[Feature]) -> dict[str, np.ndarray]:
    values = [each.possible_values or () for each in features]
    return {"value": np.concatenate(values).astype(np.float64)}


def _of_quantile(features: Sequence[Feature]) -> dict[str, np.ndarray]:
    return intervals(features)._asdict()


def _bounds(features: Sequence[Feature]) -> dict[str, np.ndarray]:
    names = {"low": "min_value", "high": "max_value"}
    return {ours: parameters(features, name) for ours, name in names.items()}


def _binary(x: tf.Tensor, p: Weights) -> tf.Tensor:
    return tf.cast(x != 0, tf.float64)


def _probability(x: tf.Tensor, p: Weights) -> tf.Tensor:
    x = tf.clip_by_value(x, PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)
    return _log(x / (1 - x))


def _box_cox(x: tf.Tensor, p: Weights) -> tf.Tensor:
    x = tf.maximum(x + p["shift"], POSITIVE_MARGIN)
    return (x ** p["power"] - 1) / p["power"]


def _enum(x: tf.Tensor, p: Weights) -> tf.Tensor:
    return tf.cast(x == p["value"], tf.float64)


def _quantile(x: tf.Tensor, p: Weights) -> tf.Tensor:
    """Return the share of intervals that lie below each number.

    Each interval is 0 for numbers before it, 1 for those after it, and a part inside.
    This needs no search, for which ONNX has no operation.
    """
    x = x[:, :, tf.newaxis]
    inside = tf.where(
        x > p["start"], (x - p["start"]) / p["width"], tf.constant(0, tf.float64)
    )
    return (
        tf.reduce_sum(tf.where(x >= p["end"], tf.constant(1, tf.float64), inside), -1)
        / p["count"]
    )


def _continuous_action(x: tf.Tensor, p: Weights) -> tf.Tensor:
    scale = 2 * (1 - ACTION_MARGIN)
    y = (x - p["low"]) / (p["high"] - p["low"]) * scale - 1 + ACTION_MARGIN
    return tf.clip_by_value(y, -1 + ACTION_MARGIN, 1 - ACTION_MARGIN)


def _unchanged(x: tf.Tensor, p: Weights) -> tf.Tensor:
    return x


def _clip_log(x: tf.Tensor, p: Weights) -> tf.Tensor:
    return _log(tf.maximum(x, POSITIVE_MARGIN))


def _log(x: tf.Tensor) -> tf.Tensor:
    """Return the logarithm in float64, also in exports to ONNX.

    tf2onnx computes it in float32; a step of Newton's method makes up for that.
    """
    rough = tf.math.log(x)
    return rough + x * tf.exp(-rough) - 1


_MOMENTS = "mean", "stddev"
_PARAMETERS: dict[str, Callable[[Sequence[Feature]], dict[str, np.ndarray]]] = {
    "BOXCOX": _of_box_cox,
    "ENUM": _of_enum,
    "QUANTILE": _of_quantile,
    "CONTINUOUS_ACTION": _bounds,
}
_TRANSFORMS: dict[str, Callable[[tf.Tensor, Weights], tf.Tensor]] = {
    "BINARY": _binary,
    "PROBABILITY": _probability,
    "CONTINUOUS": _unchanged,
    "BOXCOX": _box_cox,
    "ENUM": _enum,
    "QUANTILE": _quantile,
    "CONTINUOUS_ACTION": _continuous_action,
    "DISCRETE_ACTION": _unchanged,
    "DO_NOT_PREPROCESS": _unchanged,
    "CLIP_LOG": _clip_log,
}
