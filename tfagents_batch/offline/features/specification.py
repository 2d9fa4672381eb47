"""Specification of features: the type of each one and its parameters, as JSON.

Types and parameters are those of Horizon (Gauci et al. 2018, arXiv:1811.00260).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.suggest import unknown

VERSION = 1
# All types, in the order of their columns.
TYPES = (
    *("BINARY", "PROBABILITY", "CONTINUOUS", "BOXCOX", "ENUM", "QUANTILE"),
    *("CONTINUOUS_ACTION", "DISCRETE_ACTION", "DO_NOT_PREPROCESS", "CLIP_LOG"),
)
SMALLEST_LAMBDA = 1e-6  # the transform of Box and Cox divides by lambda


@dataclasses.dataclass(frozen=True)
class Feature:
    """Type of a feature and its parameters; None where its type has no use for them.

    Attributes:
      feature_type: one of ``TYPES``.
      boxcox_lambda, boxcox_shift: of BOXCOX, exponent and what is added before.
      mean, stddev: of CONTINUOUS, and of BOXCOX after its transform.
      possible_values: of ENUM, in the order of its columns.
      quantiles: of QUANTILE, ascending.
      min_value, max_value: smallest and largest raw value.
    """

    feature_type: str
    boxcox_lambda: float | None = None
    boxcox_shift: float | None = None
    mean: float | None = None
    stddev: float | None = None
    possible_values: tuple[int, ...] | None = None
    quantiles: tuple[float, ...] | None = None
    min_value: float | None = None
    max_value: float | None = None

    @property
    def columns(self) -> int:
        """Number of columns after normalization."""
        return len(self.possible_values or ()) if self.feature_type == "ENUM" else 1


@dataclasses.dataclass(frozen=True)
class Specification:
    """Features by id, ascending.

    Attributes:
      features: features by id.
      n: number of rows that it was found from; 0 if unknown.
      gate: rule that decided between the continuous types, see ``FeatureSettings``.
      missing_as_zero: whether a missing feature counts as the value 0.
    """

    features: Mapping[int, Feature]
    n: int = 0
    gate: str = "per_sample"
    missing_as_zero: bool = False

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the features, ascending."""
        return tuple(self.features)

    @functools.cached_property
    def sha256(self) -> str:
        """SHA-256 of the canonical form: JSON with sorted keys and without spaces."""
        text = json.dumps(to_dict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def to_dict(given: Specification) -> dict[str, Any]:
    """Return the content of a specification's file."""
    return {
        "version": VERSION,
        "n": given.n,
        "gate": given.gate,
        "missing_as_zero": given.missing_as_zero,
        "features": {str(i): to_entry(x) for i, x in given.features.items()},
    }


def to_entry(feature: Feature) -> dict[str, Any]:
    """Return a feature's entry in a file: all keys, null for None."""
    found = dataclasses.asdict(feature)
    return {k: list(x) if isinstance(x, tuple) else x for k, x in found.items()}


def from_dict(given: Any, where: str = "the specification") -> Specification:
    """Return the specification of a file's content.

    Args:
      given: result of ``to_dict``, as JSON gives it.
      where: name of the origin in errors.

    Raises:
      UserError: for an unknown key, another version, or parameters that a type lacks
        or cannot use.
    """
    keys = ("version", "n", "gate", "missing_as_zero", "features")
    given = _object(given, where)
    _check_keys(given, keys, f"key of {where}")
    if given.get("version") != VERSION:
        raise UserError(
            f"{where} has version {given.get('version')!r}; expected {VERSION}: run "
            "tfagents-batch features again"
        )
    n, gate = given.get("n", 0), given.get("gate", "per_sample")
    as_zero = given.get("missing_as_zero", False)
    for name, value, kind in (
        ("n", n, int),
        ("gate", gate, str),
        ("missing_as_zero", as_zero, bool),
    ):
        if type(value) is not kind:
            raise UserError(f"{where}: {name} is {value!r}; expected {kind.__name__}")
    entries = _object(given.get("features"), f"{where}: features")
    return of_features(
        {i: from_entry(entry, f"{where}: feature {i}") for i, entry in entries.items()},
        where,
        *(n, gate, as_zero),
    )


def of_features(
    features: Mapping[Any, Feature], where: str, *others: Any
) -> Specification:
    """Return the specification of features, whose ids may be text.

    Raises:
      UserError: if an id is no whole number, or if there is no feature.
    """
    found = {}
    for name, feature in features.items():
        try:
            found[int(name)] = feature
        except ValueError:
            raise UserError(
                f"{where}: {name!r} is no id of a feature; expected a whole number"
            ) from None
    if not found:
        raise UserError(f"{where} has no features; expected at least one")
    return Specification(dict(sorted(found.items())), *others)


def from_entry(given: Any, where: str) -> Feature:
    """Return the feature of an entry of a file.

    Raises:
      UserError: see ``from_dict``.
    """
    given = _object(given, where)
    _check_keys(given, [x.name for x in dataclasses.fields(Feature)], f"key of {where}")
    kind = given.get("feature_type")
    if kind not in TYPES:
        raise UserError(f"{where}: {unknown('feature_type', str(kind), TYPES)}")
    found: dict[str, Any] = {"feature_type": kind}
    for name, value in given.items():
        if name == "feature_type" or value is None:
            continue
        is_list = name in ("possible_values", "quantiles")
        numbers = value if is_list and isinstance(value, list) else [value]
        if is_list != isinstance(value, list) or not all(map(_is_number, numbers)):
            what = "a list of numbers" if is_list else "a number"
            raise UserError(f"{where}: {name} is {value!r:.80}; expected {what}")
        kinds = int if name == "possible_values" else float
        if kinds is int and any(x != int(x) for x in numbers):
            raise UserError(
                f"{where}: possible_values is {value!r:.80}; expected whole numbers"
            )
        found[name] = tuple(map(kinds, numbers)) if is_list else float(value)
    feature = Feature(**found)
    check(feature, where)
    return feature


def check(feature: Feature, where: str) -> None:
    """Check that a feature has what its type needs.

    Raises:
      UserError: naming the parameter.
    """
    for name, (is_right, expected) in _NEEDED.get(feature.feature_type, {}).items():
        value = getattr(feature, name)
        if value is None or not is_right(value):
            raise UserError(
                f"{where}: {name} of {feature.feature_type} is {value!r:.80}; expected "
                f"{expected}"
            )
    low, high = feature.min_value, feature.max_value
    if feature.feature_type == "CONTINUOUS_ACTION" and low >= high:
        raise UserError(
            f"{where}: min_value is {low} and max_value {high}; expected a smaller "
            "min_value"
        )


def read(path: str | Path) -> Specification:
    """Return the specification of a file.

    Raises:
      UserError: if it cannot be read, see ``from_dict``.
    """
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read: {why}") from None
    try:
        given = json.loads(text)
    except ValueError as error:
        raise UserError(f"{path} is no JSON: {error}") from None
    return from_dict(given, str(path))


def to_text(given: Specification) -> str:
    """Return the text of a specification's file: a line for each feature."""
    content = to_dict(given)
    features = content.pop("features")
    head = [f"  {json.dumps(k)}: {json.dumps(x)}," for k, x in content.items()]
    lines = [f"    {json.dumps(i)}: {json.dumps(x)}" for i, x in features.items()]
    return (
        "\n".join(["{", *head, '  "features": {', ",\n".join(lines), "  }", "}"]) + "\n"
    )


def write(given: Specification, path: str | Path) -> None:
    """Write a specification to a file.

    Raises:
      SaveError: if it cannot be written.
    """
    try:
        Path(path).write_text(to_text(given))
    except OSError as error:
        raise SaveError(f"{path} cannot be written: {error.strerror}") from error


def _object(given: Any, where: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise UserError(f"{where} is {given!r:.80}; expected an object with keys")
    return given


def _check_keys(given: Mapping[str, Any], known: Any, what: str) -> None:
    for key in given:
        if key not in known:
            raise UserError(unknown(what, key, known))


def _is_number(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _ascend(values: tuple[float, ...]) -> bool:
    return bool(values) and all(a < b for a, b in itertools.pairwise(values))


Test = tuple[Callable[[Any], bool], str]
_ANY: Test = (lambda x: True, "a number")
_POSITIVE: Test = (lambda x: x > 0, "more than 0")
_LAMBDA: Test = (
    lambda x: abs(x) > SMALLEST_LAMBDA,
    f"a number above {SMALLEST_LAMBDA} or below -{SMALLEST_LAMBDA}",
)
_DISTINCT: Test = (lambda x: x and len(set(x)) == len(x), "numbers that differ")
_ASCENDING: Test = (_ascend, "ascending numbers")
_NEEDED: dict[str, dict[str, Test]] = {
    "CONTINUOUS": {"mean": _ANY, "stddev": _POSITIVE},
    "BOXCOX": {
        "boxcox_lambda": _LAMBDA,
        "boxcox_shift": _ANY,
        "mean": _ANY,
        "stddev": _POSITIVE,
    },
    "ENUM": {"possible_values": _DISTINCT},
    "QUANTILE": {"quantiles": _ASCENDING},
    "CONTINUOUS_ACTION": {"min_value": _ANY, "max_value": _ANY},
}
