"""Settings of the search for types of features."""

from __future__ import annotations

import dataclasses
from typing import Literal

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.features.specification import TYPES
from tfagents_batch.offline.schema import is_integer
from tfagents_batch.settings.suggest import unknown


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


def checked(given: FeatureSettings) -> FeatureSettings:
    """Check the settings; ids in ``feature_overrides`` may be numbers."""
    overrides = given.feature_overrides
    if isinstance(overrides, dict):
        overrides = {str(name): kind for name, kind in overrides.items()}
    given = config.check(dataclasses.replace(given, feature_overrides=overrides))
    for name in overrides:
        if not is_integer(name):
            raise UserError(
                f"feature_overrides has {name!r}; expected ids of features, which are "
                "whole numbers"
            )
    default = () if given.default_override is None else (given.default_override,)
    for kind in (*overrides.values(), *default):
        if kind not in TYPES:
            raise UserError(unknown("type of a feature", str(kind), TYPES))
    return given
