"""Types of settings: how values are read from flags, Python and JSON.

The types are bool, int, float, str, ``X | None``, ``tuple[X, ...]``, Literal (of str
and bool), dict (a JSON object), list (a JSON list) and ``schedules.Schedule``.
"""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
import operator
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from absl import flags

from tfagents_batch import schedules
from tfagents_batch.errors import UserError


class Kind(NamedTuple):
    """Type of a setting."""

    expected: str  # description of the accepted values, for errors
    type: str  # short name, for help texts
    # Converts command-line text. Raises ValueError, with or without a detail.
    read: Callable[[str], Any]
    # Converts a value from Python or JSON. Raises ValueError likewise.
    check: Callable[[Any], Any]
    boolean: bool = False  # whether a flag needs no value
    example: str = ""  # a value as it is written in a shell, for errors; may be empty

    def complaint(self, error: ValueError) -> str:
        """Return the second half of an error message for a refused value."""
        detail = str(error)
        if self.expected in detail:
            return detail
        such = f", such as {self.example}" if self.example else ""
        return f"expected {self.expected}" + (f" ({detail})" if detail else "") + such


def kind(hint: Any) -> Kind:
    """Return the kind of a type annotation; TypeError if a config cannot have it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in _KINDS or origin is dict:
        return _KINDS[origin or hint]
    if origin is Literal:
        return _choice(arguments)
    if origin is tuple and arguments[1:] == (...,):
        return _sequence(kind(arguments[0]))
    if origin in (typing.Union, types.UnionType) and type(None) in arguments:
        inner = [x for x in arguments if x is not type(None)]
        if len(inner) == 1:
            return _optional(kind(inner[0]))
    raise TypeError(f"a config cannot have a field of type {hint}")


def to_plain(value: Any, levels: int = 50) -> Any:
    """Convert a value to JSON data: tuples to lists, schedules to numbers or text.

    Raises:
      ValueError: for a value that JSON cannot represent, or of more ``levels``.
    """
    if not levels:
        raise ValueError("it is nested too deep")
    if isinstance(value, schedules.Constant):
        return value.value
    if schedules.is_schedule(value):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: to_plain(getattr(value, name), levels - 1) for name in names}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: to_plain(item, levels - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item, levels - 1) for item in value]
    if isinstance(value, numbers.Real) and not isinstance(value, (bool, int)):
        value = int(value) if isinstance(value, numbers.Integral) else float(value)
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError(f"{value!r} cannot be written as JSON")


def to_text(value: Any) -> str:
    """Return a value as text for a command line."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(to_text, value))
    if isinstance(value, (dict, list)):
        return json.dumps(value)
    return str(value)


def out_of_bounds(value: Any, bounds: Mapping[str, Any]) -> str | None:
    """Return the expected range of a checked value, or None if it is within bounds.

    Bounds are any of "least", "above", "most" and "below". They hold for all numbers of
    a tuple or a schedule; None has none.
    """
    compare = {
        "least": (operator.ge, "at least"),
        "above": (operator.gt, "more than"),
        "most": (operator.le, "at most"),
        "below": (operator.lt, "less than"),
    }
    limits = {name: bounds[name] for name in compare if name in bounds}
    if all(
        compare[k][0](x, bound) for x in _numbers(value) for k, bound in limits.items()
    ):
        return None
    demands = [f"{compare[name][1]} {bound}" for name, bound in limits.items()]
    return f"expected {' and '.join(demands)}"


def _numbers(value: Any) -> Sequence[float]:
    """Return all numbers of a value; a schedule stays between its numbers."""
    if isinstance(value, schedules.Constant):
        return [value.value]
    if isinstance(value, schedules.Linear):
        return [value.start, value.end]
    if isinstance(value, schedules.Piecewise):
        return [x for _, x in value.points]
    if isinstance(value, (tuple, list)):
        return value
    return [] if value is None else [value]


def _read_int(text: str) -> int:
    try:
        return _check_int(int(text))
    except ValueError:
        return _check_int(_read_float(text))


def _check_int(value: Any) -> int:
    _check_float(value)  # raises for anything but a number
    if value != int(value):
        raise ValueError
    if abs(value) >= 2**63:
        raise ValueError("it is too large")
    return int(value)


def _read_float(text: str) -> float:
    try:
        return _check_float(float(text))
    except ValueError:
        raise ValueError from None  # without Python's message


def _check_float(value: Any) -> float:
    try:
        return schedules.finite(value, "it")
    except UserError:
        raise ValueError from None


def _read_bool(text: str) -> bool:
    try:
        return flags.BooleanParser().parse(text)
    except ValueError:
        raise ValueError from None  # without absl's message


def _instance(of: type | tuple[type, ...]) -> Callable[[Any], Any]:
    def check(value):
        if not isinstance(value, of):
            raise ValueError
        return value

    return check


def _read_json(text: str) -> Any:
    def unique(items):
        if len(dict(items)) < len(items):
            raise ValueError("a key is given twice")
        return dict(items)

    try:
        return json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _json(expected: str, of: type | tuple[type, ...], example: str) -> Kind:
    def check(value):
        return to_plain(_instance(of)(value))

    def read(text):
        return check(_read_json(text))

    name = expected.removeprefix("a ")
    return Kind(expected, name, read, check, example=example)


_KINDS = {
    bool: Kind("true or false", "bool", _read_bool, _instance(bool), boolean=True),
    int: Kind("a whole number such as 8 or 1e6", "int", _read_int, _check_int),
    float: Kind("a number", "float", _read_float, _check_float),
    str: Kind("text", "str", str, _instance(str)),
    dict: _json("a JSON object", dict, """'{"name": 1}'"""),
    list: _json("a JSON list", (list, tuple), """'["TimeAwareObservation"]'"""),
    schedules.Schedule: Kind(
        schedules.EXPECTED, "schedule", schedules.parse, schedules.parse
    ),
}


def _choice(choices: tuple[Any, ...]) -> Kind:
    by_name = {to_text(choice): choice for choice in choices}

    def check(value):
        for choice in choices:  # 1 is not True
            if isinstance(value, type(choice)) and value == choice:
                return choice
        raise ValueError

    expected = " or ".join(by_name)
    boolean = any(choice is True for choice in choices)
    name = "|".join(by_name)
    return Kind(expected, name, lambda text: check(by_name.get(text)), check, boolean)


def _sequence(item: Kind) -> Kind:
    def read(text):
        return tuple(item.read(part.strip()) for part in text.split(",") if text)

    def check(value):
        if not isinstance(value, (list, tuple)):
            raise ValueError
        return tuple(item.check(x) for x in value)

    expected = f"a comma-separated list, each {item.expected}"
    return Kind(expected, f"{item.type},...", read, check)


def _optional(inner: Kind) -> Kind:
    def read(text):
        return None if text.lower() == "none" else inner.read(text)

    def check(value):
        return None if value is None else inner.check(value)

    expected = f"{inner.expected}, or none"
    return Kind(expected, inner.type, read, check, example=inner.example)
