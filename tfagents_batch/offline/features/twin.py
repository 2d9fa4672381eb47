"""Normalization of features in NumPy; ``FeatureNormalizer`` gives the same numbers.

Both compute in float64: a small standard deviation enlarges rounding errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tfagents_batch.features.layout import (
    ACTION_MARGIN,
    LARGEST,
    POSITIVE_MARGIN,
    PROBABILITY_MARGIN,
    Layout,
    intervals,
    parameters,
)
from tfagents_batch.features.specification import Feature

_CHUNK = 1 << 22  # numbers that are normalized at once, to save memory


def normalize(
    layout: Layout, values: np.ndarray, presence: np.ndarray | None = None
) -> np.ndarray:
    """Return normalized features, see ``docs/features.md`` for each type.

    Args:
      layout: of the specification.
      values: ``[B, F]``; NaN is missing.
      presence: ``[B, F]``, 0 where a feature is missing; None where none is.

    Returns:
      f32 ``[B, layout.size]``; a missing feature is 0 in all of its columns.
    """
    found = np.zeros([len(values), layout.size], np.float32)
    rows = max(1, _CHUNK // max(layout.size, layout.inputs, 1))
    for first in range(0, len(values), rows):
        part = slice(first, first + rows)
        present = ~np.isnan(values[part])
        if presence is not None:
            present &= presence[part].astype(bool)
        _normalize(layout, values[part], present, found[part])
    return found


def _normalize(
    layout: Layout, values: np.ndarray, present: np.ndarray, out: np.ndarray
) -> None:
    """Write normalized features to ``out``, which is 0."""
    first = 0
    for kind, index, features, standardized in layout.groups:
        there = present[:, index]
        x = np.where(there, values[:, index], 0).astype(np.float64)
        if layout.missing_as_zero:
            there = np.ones_like(there)
        with np.errstate(over="ignore"):  # of powers, whose results are clipped
            y = _TRANSFORMS[kind](x, features)
        if standardized:
            y = (y - parameters(features, "mean")) / parameters(features, "stddev")
        if kind == "ENUM":
            there = there.repeat([each.columns for each in features], axis=1)
        if kind != "DO_NOT_PREPROCESS":
            y = np.clip(y, -LARGEST, LARGEST)
        out[:, first : first + y.shape[1]] = np.where(there, y, 0)
        first += y.shape[1]


def transformed(feature: Feature, values: np.ndarray) -> np.ndarray:
    """Return the numbers ``[B]`` of a feature, neither standardized nor clipped."""
    with np.errstate(over="ignore"):
        return _TRANSFORMS[feature.feature_type](values[:, np.newaxis], [feature])[:, 0]


def inverse_action(features: Sequence[Feature], action: np.ndarray) -> np.ndarray:
    """Return raw actions of normalized ones, the inverse of CONTINUOUS_ACTION.

    Args:
      features: one for each number of an action.
      action: ``[B, G]``, clipped to -1 and 1.
    """
    low, high = (parameters(features, x) for x in ("min_value", "max_value"))
    inside = np.clip(action, -1 + ACTION_MARGIN, 1 - ACTION_MARGIN)
    share = (inside + 1 - ACTION_MARGIN) / (2 * (1 - ACTION_MARGIN))
    return share * (high - low) + low


def _binary(x: np.ndarray, features: Sequence[Feature]) -> np.ndarray:
    return (x != 0).astype(np.float64)


def _probability(x: np.ndarray, features: Sequence[Feature]) -> np.ndarray:
    p = np.clip(x, PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)
    return np.log(p / (1 - p))


def _box_cox(x: np.ndarray, features: Sequence[Feature]) -> np.ndarray:
    power = parameters(features, "boxcox_lambda")
    x = np.maximum(x + parameters(features, "boxcox_shift"), POSITIVE_MARGIN)
    return (x**power - 1) / power


def _enum(x: np.ndarray, features: Sequence[Feature]) -> np.ndarray:
    columns = [
        x[:, k, np.newaxis] == np.asarray(each.possible_values, np.float64)
        for k, each in enumerate(features)
    ]
    return np.concatenate(columns, 1).astype(np.float64)


def _quantile(x: np.ndarray, features: Sequence[Feature]) -> np.ndarray:
    found = np.empty_like(x)
    for k, (start, end, width, count) in enumerate(
        zip(*intervals(features), strict=True)
    ):
        count = int(count)
        column, start, end = x[:, k], start[:count], end[:count]
        i = np.clip(np.searchsorted(start, column, "right") - 1, 0, count - 1)
        inside = (i + (column - start[i]) / width[i]) / count
        inside = np.where(column >= end[-1], 1.0, inside)
        found[:, k] = np.where(column <= start[0], 0.0, inside)
    return found


def _continuous_action(x: np.ndarray, features: Sequence[Feature]) -> np.ndarray:
    low, high = (parameters(features, name) for name in ("min_value", "max_value"))
    scale = 2 * (1 - ACTION_MARGIN)
    y = (x - low) / (high - low) * scale - 1 + ACTION_MARGIN
    return np.clip(y, -1 + ACTION_MARGIN, 1 - ACTION_MARGIN)


def _unchanged(x: np.ndarray, features: Sequence[Feature]) -> np.ndarray:
    return x


def _clip_log(x: np.ndarray, features: Sequence[Feature]) -> np.ndarray:
    return np.log(np.maximum(x, POSITIVE_MARGIN))


_TRANSFORMS: dict[str, Callable[[np.ndarray, Sequence[Feature]], np.ndarray]] = {
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
