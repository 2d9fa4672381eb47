"""Normalization of features in NumPy; ``FeatureNormalizer`` gives the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import numpy as np

from tfagents_batch.features import layout as columns
from tfagents_batch.features.layout import (
    ACTION_MARGIN,
    FeatureLayout,
    Group,
    parameters,
)
from tfagents_batch.features.specification import Feature

_CHUNK = 1 << 22  # numbers that are normalized at once, to save memory


def normalize(
    layout: FeatureLayout, values: np.ndarray, presence: np.ndarray | None = None
) -> np.ndarray:
    """Return normalized features, f32 ``[B, layout.size]``, see ``docs/features.md``.

    Values are ``[B, F]``. A feature is missing where its value is NaN or its presence,
    ``[B, F]``, is 0; it is 0 in all of its columns then.
    """
    normalized = np.zeros([len(values), layout.size], np.float32)
    rows = max(1, _CHUNK // max(layout.size, layout.inputs, 1))
    for first in range(0, len(values), rows):
        part = slice(first, first + rows)
        present = ~np.isnan(values[part])
        if presence is not None:
            present &= presence[part].astype(bool)
        _normalize(layout, values[part], present, normalized[part])
    return normalized


def _normalize(
    layout: FeatureLayout, values: np.ndarray, present: np.ndarray, out: np.ndarray
) -> None:
    """Write normalized features to ``out``."""
    first = 0
    for group in layout.groups:
        there = present[:, group.inputs]
        x = np.where(there, values[:, group.inputs], 0).astype(np.float64)
        with np.errstate(over="ignore"):  # of powers, whose results are clipped
            y = columns.normalized(group, x, parameters(group), _OPERATIONS)
        if not layout.missing_as_zero:
            y = np.where(there, y, 0)
        out[:, first : first + y.shape[1]] = y
        first += y.shape[1]


def transformed(feature: Feature, values: np.ndarray) -> np.ndarray:
    """Return the numbers ``[B]`` of a feature, neither standardized nor clipped."""
    group = Group(feature.feature_type, np.zeros(1, np.int64), (feature,), False)
    known, x = parameters(group), values[:, np.newaxis]
    with np.errstate(over="ignore"):
        return columns.transformed(group.kind, x, known, _OPERATIONS)[:, 0]


def inverse_action(features: Sequence[Feature], action: np.ndarray) -> np.ndarray:
    """Return raw actions of normalized ones ``[B, G]``, which are clipped to -1 and 1.

    It is the inverse of CONTINUOUS_ACTION, one feature for each number of an action.
    """
    group = Group("CONTINUOUS_ACTION", np.arange(len(features)), (*features,), False)
    low, high = parameters(group).values()
    inside = np.clip(action, -1 + ACTION_MARGIN, 1 - ACTION_MARGIN)
    share = (inside + 1 - ACTION_MARGIN) / (2 * (1 - ACTION_MARGIN))
    return share * (high - low) + low


def _quantile(x: np.ndarray, p: Mapping[str, np.ndarray]) -> np.ndarray:
    shares = np.empty_like(x)
    for k, count in enumerate(p["count"].astype(int)):
        start, end, width = (p[name][k, :count] for name in ("start", "end", "width"))
        column = x[:, k]
        i = np.clip(np.searchsorted(start, column, "right") - 1, 0, count - 1)
        inside = (i + (column - start[i]) / width[i]) / count
        inside = np.where(column >= end[-1], 1.0, inside)
        shares[:, k] = np.where(column <= start[0], 0.0, inside)
    return shares


_OPERATIONS = SimpleNamespace(
    cast=lambda x: x.astype(np.float64),
    clip=np.clip,
    maximum=np.maximum,
    log=np.log,
    quantile=_quantile,
)
