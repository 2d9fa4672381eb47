"""Columns of normalized features, by type and by id, and how numbers become them.

All is computed in float64: a small standard deviation enlarges rounding errors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.features.specification import (
    STANDARDIZED,
    TYPES,
    Feature,
    Specification,
)

LARGEST = 11.513  # magnitude of a normalized number, as in Horizon: logit(1e-5)
PROBABILITY_MARGIN = 1e-5
POSITIVE_MARGIN = 1e-6  # smallest number whose logarithm or power is taken
QUANTILE_MARGIN = 1e-6  # added to the width of an interval
ACTION_MARGIN = 1e-6
_BEYOND = 1e300  # every float32
# Attributes of ``Feature`` by the names of weights.
_PARAMETERS = {
    "BOXCOX": {"power": "boxcox_lambda", "shift": "boxcox_shift"},
    "CONTINUOUS_ACTION": {"low": "min_value", "high": "max_value"},
}


class Group(NamedTuple):
    """Features of one type."""

    kind: str  # their type
    columns: np.ndarray  # i64 [G], theirs in the raw values
    features: tuple[Feature, ...]  # the features, by ascending id
    # Whether the mean is subtracted from their numbers, which are then divided by the
    # standard deviation
    standardized: bool

    @property
    def inputs(self) -> np.ndarray:
        """Raw column of each normalized one, i64 ``[C]``."""
        return self.columns.repeat([x.columns for x in self.features])


class FeatureLayout(NamedTuple):
    """Columns of raw values, and the normalized columns that they become."""

    inputs: int  # number of raw columns
    groups: tuple[Group, ...]  # types in the order of their columns
    # Name of each normalized column: the id, for ENUM "<id>=<value>"
    names: tuple[str, ...]
    missing_as_zero: bool  # see Specification

    @property
    def size(self) -> int:
        """Number of normalized columns."""
        return len(self.names)


def layout(
    specification: Specification, ids: Sequence[int] | None = None
) -> FeatureLayout:
    """Return the layout of a specification.

    Args:
      specification: UserError if it has a feature that is no raw column.
      ids: id of each raw column; None for those of the specification. Columns that it
        does not have are left out.
    """
    ids = specification.ids if ids is None else ids
    place = {feature: k for k, feature in enumerate(ids)}
    if lost := [i for i in specification.ids if i not in place]:
        raise UserError(
            f"the specification has the features {some(lost)}, which the rows do not "
            f"have; they have {some(ids)}. Run tfagents-batch features on these rows, "
            "or with --allowlist"
        )
    groups, names = [], []
    for kind in TYPES:
        features = {
            i: x for i, x in specification.features.items() if x.feature_type == kind
        }
        if not features:
            continue
        index = np.array([place[i] for i in features], np.int64)
        standardized = kind in STANDARDIZED[specification.version]
        groups.append(Group(kind, index, tuple(features.values()), standardized))
        for i, feature in features.items():
            values = feature.possible_values or ()
            names += [f"{i}={x}" for x in values] if kind == "ENUM" else [str(i)]
    return FeatureLayout(
        len(ids), tuple(groups), tuple(names), specification.missing_as_zero
    )


class Intervals(NamedTuple):
    """Intervals between quantiles, f64 ``[G, M]``, M the largest number of them."""

    # start, end: bounds; further intervals of a feature are beyond all numbers
    start: np.ndarray
    end: np.ndarray
    width: np.ndarray  # what a place in the interval is divided by
    # f64 [G], number of intervals of each feature; checkpoints have this name
    count: np.ndarray  # pyright: ignore[reportIncompatibleMethodOverride]


def intervals(features: Sequence[Feature]) -> Intervals:
    """Return the intervals between the quantiles of features."""
    most = max(max(len(x.quantiles or ()) - 1, 1) for x in features)
    # Finite, because exports to ONNX multiply by 0 what they do not select.
    start, end = np.full([2, len(features), most], _BEYOND)
    width, counts = np.ones([len(features), most]), np.ones(len(features))
    for k, feature in enumerate(features):
        bounds = np.asarray(feature.quantiles, np.float64)
        if len(bounds) == 1:  # 0 up to this value, and 1 above it
            bounds = np.array([bounds[0], np.nextafter(bounds[0], np.inf)])
        count = counts[k] = len(bounds) - 1
        start[k, :count], end[k, :count] = bounds[:-1], bounds[1:]
        width[k, :count] = np.diff(bounds) + QUANTILE_MARGIN
    return Intervals(start, end, width, counts)


def parameters(group: Group) -> dict[str, np.ndarray]:
    """Return the parameters of a type's features by name, f64 ``[C]``; see ``Group``.

    Those of QUANTILE are ``Intervals``.
    """
    kind, _, features, standardized = group
    by_name: dict[str, np.ndarray] = {}
    if kind == "ENUM":
        values = [feature.possible_values or () for feature in features]
        by_name["value"] = np.concatenate(values).astype(np.float64)
    if kind == "QUANTILE":
        by_name = intervals(features)._asdict()
    names = dict(_PARAMETERS.get(kind, {}))
    names |= {"mean": "mean", "stddev": "stddev"} if standardized else {}
    return by_name | {
        ours: np.array([getattr(x, name) for x in features], np.float64)
        for ours, name in names.items()
    }


def transformed(kind: str, x: Any, p: Mapping[str, Any], ops: Any) -> Any:
    """Return numbers of a type, neither standardized nor clipped, f64 ``[B, C]``.

    Args:
      kind: the type.
      x: f64 ``[B, C]``, raw values.
      p: see ``parameters``.
      ops: NumPy's or TensorFlow's ``cast`` (to f64), ``clip``, ``maximum`` and ``log``,
        and ``quantile``, which returns the shares of the intervals below numbers.
    """
    if kind == "BINARY":
        return ops.cast(x != 0)
    if kind == "PROBABILITY":
        x = ops.clip(x, PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)
        return ops.log(x / (1 - x))
    if kind == "BOXCOX":
        x = ops.maximum(x + p["shift"], POSITIVE_MARGIN)
        return (x ** p["power"] - 1) / p["power"]
    if kind == "ENUM":
        return ops.cast(x == p["value"])
    if kind == "QUANTILE":
        return ops.quantile(x, p)
    if kind == "CONTINUOUS_ACTION":
        scale = 2 * (1 - ACTION_MARGIN)
        y = (x - p["low"]) / (p["high"] - p["low"]) * scale - 1 + ACTION_MARGIN
        return ops.clip(y, -1 + ACTION_MARGIN, 1 - ACTION_MARGIN)
    return ops.log(ops.maximum(x, POSITIVE_MARGIN)) if kind == "CLIP_LOG" else x


def normalized(group: Group, x: Any, p: Mapping[str, Any], ops: Any) -> Any:
    """Return normalized numbers of a type, see ``transformed``."""
    y = transformed(group.kind, x, p, ops)
    if group.standardized:
        y = (y - p["mean"]) / p["stddev"]
    return y if group.kind == "DO_NOT_PREPROCESS" else ops.clip(y, -LARGEST, LARGEST)


def some(ids: Collection[int]) -> str:
    """Return the first ids as text."""
    more = ", ..." if len(ids) > 8 else ""
    return ", ".join(map(str, [*ids][:8])) + more
