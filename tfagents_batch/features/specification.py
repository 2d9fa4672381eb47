"""Specification of features: the type of each one and its parameters, as JSON.

Types and parameters are those of Horizon (Gauci et al. 2018, arXiv:1811.00260).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.schedules import is_finite
from tfagents_batch.settings.suggest import unknown

VERSION = 2
_WHOLE = re.compile("-?[0-9]+")
# All types, in the order of their columns.
TYPES = (
    *("BINARY", "PROBABILITY", "CONTINUOUS", "BOXCOX", "ENUM", "QUANTILE"),
    *("CONTINUOUS_ACTION", "DISCRETE_ACTION", "DO_NOT_PREPROCESS", "CLIP_LOG"),
)
# Types whose normalized numbers have mean 0 and standard deviation 1, by version of the
# specification. Files of version 1 keep the numbers that policies were trained with.
STANDARDIZED = {
    1: ("CONTINUOUS", "BOXCOX"),
    2: ("PROBABILITY", "CONTINUOUS", "BOXCOX", "CLIP_LOG"),
}
NAMES = "name", "categories"
SMALLEST_LAMBDA = 1e-6  # the transform of Box and Cox divides by lambda


@dataclasses.dataclass(frozen=True)
class Feature:
    """Type of a feature and its parameters; None where its type has no use for them."""

    feature_type: str  # one of TYPES
    # boxcox_lambda, boxcox_shift: of BOXCOX, exponent and what is added before
    boxcox_lambda: float | None = None
    boxcox_shift: float | None = None
    # mean, stddev: of STANDARDIZED types, after log odds, logarithm or power
    mean: float | None = None
    stddev: float | None = None
    # Values of ENUM, in the order of its columns
    possible_values: tuple[int, ...] | None = None
    quantiles: tuple[float, ...] | None = None  # of QUANTILE, ascending
    # min_value, max_value: smallest and largest raw value
    min_value: float | None = None
    max_value: float | None = None
    name: str | None = None  # of the column of a table that it was made from
    # Names of the values 0, 1, ... of ENUM in that column.
    categories: tuple[str, ...] | None = None

    @property
    def columns(self) -> int:
        """Number of columns after normalization."""
        return len(self.possible_values or ()) if self.feature_type == "ENUM" else 1


@dataclasses.dataclass(frozen=True)
class Specification:
    """Features by id, ascending."""

    features: Mapping[int, Feature]  # features by id
    n: int = 0  # number of rows that it was found from; 0 if unknown
    # Rule that decided between the continuous types, see FeatureSettings
    gate: str = "per_sample"
    missing_as_zero: bool = False  # whether a missing feature counts as the value 0
    version: int = VERSION  # version of the file, a key of STANDARDIZED

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the features, ascending."""
        return tuple(self.features)

    @functools.cached_property
    def sha256(self) -> str:
        """SHA-256 of the canonical form: JSON with sorted keys and without spaces."""
        text = json.dumps(to_dict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def to_dict(specification: Specification) -> dict[str, Any]:
    """Return the content of a specification's file; None in a feature is null.

    Names are left out where there are none, as files had none once, and their hash.
    """
    features = {
        str(i): dataclasses.asdict(x) for i, x in specification.features.items()
    }
    for entry in features.values():
        for name in NAMES:
            if entry[name] is None:
                del entry[name]
    return {
        "version": specification.version,
        "n": specification.n,
        "gate": specification.gate,
        "missing_as_zero": specification.missing_as_zero,
        "features": features,
    }


def from_dict(content: Any, where: str = "the specification") -> Specification:
    """Return the specification of a file's content, see ``to_dict``.

    UserError for an unknown key, another version, or parameters that a type lacks or
    cannot use; ``where`` names the origin.
    """
    kinds = {"n": int, "gate": str, "missing_as_zero": bool}
    content = _object(content, where, ("version", "features", *kinds))
    version = content.get("version")
    if type(version) is not int or version not in STANDARDIZED:
        raise UserError(
            f"{where} has version {version!r}; expected "
            f"{' or '.join(map(str, STANDARDIZED))}: run tfagents-batch features again"
        )
    others = {name: content[name] for name in kinds if name in content}
    for name, value in others.items():
        if type(value) is not kinds[name]:
            raise UserError(
                f"{where}: {name} is {value!r}; expected {kinds[name].__name__}"
            )
    features = {}
    for name, entry in _object(content.get("features"), f"{where}: features").items():
        if not _WHOLE.fullmatch(name):
            raise UserError(
                f"{where}: {name!r} is no id of a feature; expected a whole number"
            )
        features[int(name)] = _feature(entry, version, f"{where}: feature {name}")
    if not features:
        raise UserError(f"{where} has no features; expected at least one")
    names = [x.name for x in features.values() if x.name is not None]
    if len({*names}) < len(names):
        raise UserError(f"{where} has a name twice; expected names that differ")
    return Specification(dict(sorted(features.items())), **others, version=version)


def _feature(entry: Any, version: int, where: str) -> Feature:
    """Return the feature of an entry of a file of a version, checked."""
    entry = _object(entry, where, [x.name for x in dataclasses.fields(Feature)])
    kind = entry.get("feature_type")
    if kind not in TYPES:
        raise UserError(f"{where}: {unknown('feature_type', str(kind), TYPES)}")
    parameters = {
        name: _parameter(value, f"{where}: {name}", name in _LISTS)
        for name, value in entry.items()
        if name not in ("feature_type", *NAMES) and value is not None
    }
    parameters |= _names(entry, where)
    values = parameters.get("possible_values", ())
    if any(x != int(x) for x in values):
        raise UserError(
            f"{where}: possible_values is {list(values)}; expected whole numbers"
        )
    if values:
        parameters["possible_values"] = tuple(map(int, values))
    feature = Feature(kind, **parameters)
    moments = ("mean", "stddev") if kind in STANDARDIZED[version] else ()
    for name in (*_NEEDED.get(kind, ()), *moments):
        is_right, expected = _LIMITS.get(name, (lambda x: True, "a number"))
        value = getattr(feature, name)
        if value is None or not is_right(value):
            raise UserError(
                f"{where}: {name} of {kind} is {value!r:.80}; expected {expected}"
            )
    low, high = feature.min_value, feature.max_value
    if kind == "CONTINUOUS_ACTION" and low >= high:
        raise UserError(
            f"{where}: min_value is {low} and max_value {high}; expected a smaller "
            "min_value"
        )
    return feature


def _names(entry: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the names of a feature and of its values, if it has some."""
    name, categories = (entry.get(x) for x in NAMES)
    if name is None and categories is None:
        return {}
    if not isinstance(name, str) or not name or _WHOLE.fullmatch(name):
        raise UserError(
            f"{where}: name is {name!r:.80}; expected text, and no whole number"
        )
    if categories is None:
        return {"name": name}
    if (
        not isinstance(categories, list)
        or not all(isinstance(x, str) for x in categories)
        or len({*categories}) < len(categories)
    ):
        raise UserError(
            f"{where}: categories is {categories!r:.80}; expected texts that differ"
        )
    return {"name": name, "categories": tuple(categories)}


def _parameter(value: Any, where: str, is_list: bool) -> Any:
    """Return a finite number, or a tuple of them."""
    numbers = value if is_list and isinstance(value, list) else [value]
    if is_list != isinstance(value, list) or not all(map(is_finite, numbers)):
        what = "a list of numbers" if is_list else "a number"
        raise UserError(f"{where} is {value!r:.80}; expected {what}")
    return tuple(map(float, value)) if is_list else float(value)


def to_text(specification: Specification) -> str:
    """Return a specification as JSON, with a line for each feature."""
    content = to_dict(specification)
    features = content.pop("features")
    head = [f"  {json.dumps(k)}: {json.dumps(x)}," for k, x in content.items()]
    lines = [f"    {json.dumps(i)}: {json.dumps(x)}" for i, x in features.items()]
    parts = ["{", *head, '  "features": {', ",\n".join(lines), "  }", "}", ""]
    return "\n".join(parts)


def _object(
    content: Any, where: str, known: Collection[str] | None = None
) -> dict[str, Any]:
    """Return an object of JSON, checked; ``known`` are its keys, None for any."""
    if not isinstance(content, dict):
        raise UserError(f"{where} is {content!r:.80}; expected an object with keys")
    for key in content:
        if known is not None and key not in known:
            raise UserError(unknown(f"key of {where}", key, known))
    return content


def _ascend(values: tuple[float, ...]) -> bool:
    return bool(values) and all(a < b for a, b in itertools.pairwise(values))


_LISTS = "possible_values", "quantiles"
_NEEDED = {
    "BOXCOX": ("boxcox_lambda", "boxcox_shift"),
    "ENUM": ("possible_values",),
    "QUANTILE": ("quantiles",),
    "CONTINUOUS_ACTION": ("min_value", "max_value"),
}
# For each parameter, a test of its value, and what an error says was expected.
_LIMITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "stddev": (lambda x: x > 0, "more than 0"),
    "boxcox_lambda": (
        lambda x: abs(x) > SMALLEST_LAMBDA,
        f"a number above {SMALLEST_LAMBDA} or below -{SMALLEST_LAMBDA}",
    ),
    "possible_values": (lambda x: len(set(x)) == len(x) > 0, "numbers that differ"),
    "quantiles": (_ascend, "ascending numbers"),
}
