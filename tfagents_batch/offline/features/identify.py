"""Settings of the search for types of features, and the type by a feature's values."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, NamedTuple

import numpy as np

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.features.specification import (
    STANDARDIZED,
    TYPES,
    VERSION,
    Feature,
)
from tfagents_batch.offline.features import twin
from tfagents_batch.offline.features.normality import box_cox, omnibus
from tfagents_batch.offline.schema import is_integer
from tfagents_batch.settings.suggest import unknown

# Constants of Horizon.
_NARROW = 1e-4  # range of numbers to which no power is applied
_BOX_COX_MARGIN = 1e-4  # smallest number that is transformed
_NEAR_ONE = 0.9, 1.1  # powers that change too little
_GAIN = 10  # times that K^2 falls by the transform, at least
_LARGEST_STD, _SMALLEST_STD = 1e8, 1e-8


@dataclasses.dataclass(frozen=True)
class FeatureSettings:
    """Settings of the search for types of features."""

    gate: Literal["per_sample", "fixed"] = option(
        "per_sample", "limits of normality: per value, or fixed as in Horizon"
    )
    sample: int = option(100_000, "values of a feature that are examined", least=20)
    seed: int = option(0, "seed of the sample")
    min_samples: int = option(20, "values below which a feature is left out", least=20)
    strict: bool = option(False, "a feature with fewer values is an error")
    max_unique_enum: int = option(10, "most values of an ENUM", least=2)
    quantile_size: int = option(20, "intervals between quantiles", least=1)
    std_floor: float = option(1e-3, "smallest standard deviation; Horizon: 1", above=0)
    skip_box_cox: bool = option(False, "do not use BOXCOX")
    skip_quantiles: bool = option(False, "do not use QUANTILE")
    feature_overrides: dict = option({}, "types of features by id, instead of theirs")
    default_override: str | None = option(
        None, "type of all features without an override; none: theirs"
    )
    allowlist: tuple[int, ...] = option((), "ids of the only features to use")
    missing_as_zero: bool = option(False, "a missing feature counts as the value 0")


def checked(settings: FeatureSettings) -> FeatureSettings:
    """Check the settings; ids in ``feature_overrides`` may be numbers."""
    overrides = settings.feature_overrides
    if isinstance(overrides, dict):
        overrides = {str(name): kind for name, kind in overrides.items()}
    settings = config.check(dataclasses.replace(settings, feature_overrides=overrides))
    for name in overrides:
        if not is_integer(name):
            raise UserError(
                f"feature_overrides has {name!r}; expected ids of features, which are "
                "whole numbers"
            )
    default = () if settings.default_override is None else (settings.default_override,)
    for kind in (*overrides.values(), *default):
        if kind not in TYPES:
            raise UserError(unknown("type of a feature", str(kind), TYPES))
    return settings


class Facts(NamedTuple):
    """Facts on all values of a feature that are present, as float32."""

    rows: int  # number of rows of the log
    present: int  # number of rows with a value
    # minimum, maximum: smallest and largest one
    minimum: float
    maximum: float
    distinct: int  # number of different ones, an estimate if values is empty
    whole: bool  # whether all are whole numbers
    values: tuple[float, ...] = ()  # all different ones, ascending, if they are few
    # Number of infinite ones, or beyond float32; they count nowhere else
    infinite: int = 0

    @property
    def share(self) -> float:
        """Share of the rows with a value."""
        return self.present / self.rows


class Normality(NamedTuple):
    """Statistics by which the type of a continuous feature is decided."""

    k2: float  # K^2 of the sample, see normality.omnibus
    k2_box_cox: float  # K^2 after the transform; NaN if it is not used


def identify(
    feature: int, facts: Facts, sample: np.ndarray, settings: FeatureSettings
) -> tuple[Feature, Normality | None]:
    """Return type and parameters of a feature, and statistics if it is continuous.

    Its values are finite, and the sample, f32 ``[n]``, is examined. UserError if they
    cannot have the type of an override.
    """
    override = settings.feature_overrides.get(str(feature), settings.default_override)
    sample = np.asarray(sample, np.float64)
    bounds = {"min_value": facts.minimum, "max_value": facts.maximum}
    kind, normality = override or _simple(facts, settings), None
    if kind is None:
        if facts.maximum - facts.minimum < _NARROW:
            kind = "CONTINUOUS"
        else:
            kind, normality = _continuous(sample, settings)
    parameters = _parameters(feature, kind, facts, sample, settings)
    if kind in STANDARDIZED[VERSION]:
        bounds |= _moments(parameters, facts, sample, settings)
    return dataclasses.replace(parameters, **bounds), normality


def _simple(facts: Facts, settings: FeatureSettings) -> str | None:
    """Return the type that minimum, maximum and number of values decide, or None."""
    low, high = facts.minimum, facts.maximum
    if low == high or (facts.whole and low >= 0 and high <= 1):
        return "BINARY"
    if low >= 0 and high <= 1:
        return "PROBABILITY"
    few = 0 < len(facts.values) <= settings.max_unique_enum
    return "ENUM" if low >= 0 and facts.whole and few else None


def _continuous(sample: np.ndarray, settings: FeatureSettings) -> tuple[str, Normality]:
    """Return BOXCOX, QUANTILE or CONTINUOUS, and why."""
    k2_after = float("nan")
    if sample.max() == sample.min():  # only values outside of the sample differ
        return "CONTINUOUS", Normality(k2_after, k2_after)
    n, k2 = len(sample), omnibus(sample)
    if not settings.skip_box_cox:
        power, after = box_cox(np.maximum(sample - sample.min(), _BOX_COX_MARGIN))
        with np.errstate(over="ignore", invalid="ignore"):
            std = after.std(ddof=1)
        low, high = _NEAR_ONE
        if _SMALLEST_STD < std < _LARGEST_STD and not low <= power <= high:
            k2_after = omnibus(after)
    normality = Normality(k2, k2_after)
    per_sample = settings.gate == "per_sample"
    # K^2 grows with n: with fixed limits, a type would depend on the number of rows.
    if per_sample:
        near, far = k2 / n > 0.02 and k2_after / n <= 0.1, k2 / n > 0.05
    else:
        near, far = k2_after <= 1000, k2 > 1000
    if near and k2 > _GAIN * k2_after:  # never for NaN
        return "BOXCOX", normality
    if far and not settings.skip_quantiles:
        return "QUANTILE", normality
    return "CONTINUOUS", normality


def _parameters(
    feature: int,
    kind: str,
    facts: Facts,
    sample: np.ndarray,
    settings: FeatureSettings,
) -> Feature:
    """Return the feature of a type, without moments and bounds."""
    if kind == "BOXCOX":
        if sample.max() - sample.min() < _NARROW:
            raise _impossible(feature, kind, facts, "values that differ")
        shift = -float(sample.min())
        power, _ = box_cox(np.maximum(sample + shift, _BOX_COX_MARGIN))
        return Feature(kind, power, shift)
    if kind == "QUANTILE":
        size = settings.quantile_size
        shares = np.arange(size + 1) / size
        quantiles = np.unique(np.quantile(sample, shares, method="inverted_cdf"))
        return Feature(kind, quantiles=tuple(quantiles.tolist()))
    if kind == "ENUM":
        if not (facts.whole and facts.values):
            raise _impossible(feature, kind, facts, "few whole numbers")
        return Feature(kind, possible_values=tuple(map(int, facts.values)))
    if kind == "CONTINUOUS_ACTION" and facts.minimum == facts.maximum:
        raise _impossible(feature, kind, facts, "values that differ")
    return Feature(kind)


def _moments(
    feature: Feature, facts: Facts, sample: np.ndarray, settings: FeatureSettings
) -> dict[str, float]:
    """Return mean and standard deviation of what becomes of a feature's values.

    If missing features count as 0, so do those of the rows without a value.
    """
    x = twin.transformed(feature, np.append(sample, 0.0))
    x, zero = x[:-1], x[-1]
    mean, variance = x.mean(), x.var(ddof=1)
    if settings.missing_as_zero:
        share, away = facts.share, zero - mean
        mean += (1 - share) * away
        variance = share * variance + share * (1 - share) * away**2
    std = max(math.sqrt(variance), settings.std_floor)
    return {"mean": float(mean), "stddev": std}


def _impossible(feature: int, kind: str, facts: Facts, expected: str) -> UserError:
    return UserError(
        f"feature {feature} cannot be {kind}: it has {facts.distinct:,} values from "
        f"{facts.minimum:g} to {facts.maximum:g}; expected {expected}. Give it another "
        "type in feature_overrides"
    )
