"""A logged row as a line of JSON."""

from __future__ import annotations

import collections
import datetime
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfagents_batch.errors import UserError

_VECTORS = ("state_features", "final_state_features", "action")
_LISTS = ("possible_actions", "final_possible_actions")
NAMES = ("ds", "mdp_id", "sequence_number", "action", *_LISTS)
# By bytes of a float: from here on, neighboring whole numbers are the same one.
_EXACT = {2: 2**11, 4: 2**24, 8: 2**53}


def to_line(row: Mapping[str, Any], finite: bool = False) -> str:
    """Return a row as JSON without a line break.

    Numbers, times and arrays of NumPy are allowed. A vector of features becomes a map
    whose ids are 0, 1, and so on.

    Args:
      row: values by column.
      finite: refuse NaN and infinity, which are not part of JSON.

    Raises:
      UserError: if the row is no mapping, has a value that JSON does not have, a key
        in two forms such as 0 and "0", or a name that a short float may have changed.
    """
    if not isinstance(row, Mapping):
        raise UserError(
            f"a row is {row!r:.200}; expected a dict with the columns of logged rows"
        )
    try:
        plain = {str(name): _value(str(name), value) for name, value in row.items()}
        _check_unique("the row", row, plain)
        return (_FINITE if finite else _ANY).encode(plain)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"a row cannot be written as JSON: {error}: {row!r:.200}"
        ) from None


def _value(name: str, value: Any) -> Any:
    if isinstance(value, (str, int, float)):  # most values, so the first test
        return value
    if isinstance(value, (dict, Mapping)):  # ``Mapping`` is a slow test
        found = {_key(name, key): each for key, each in value.items()}
        _check_unique(name, value, found)
        return found
    if name in _VECTORS and isinstance(value, (list, tuple, np.ndarray)):
        return {str(key): each for key, each in enumerate(np.ravel(value).tolist())}
    is_list = isinstance(value, (list, tuple))
    if name in _LISTS and (is_list or (isinstance(value, np.ndarray) and value.ndim)):
        for each in value:
            check_exact(name, each)
        is_list = True
    if is_list:
        return [_value(f"an element of {name}", each) for each in value]
    if name in NAMES:
        check_exact(name, value)
    return value


def _key(name: str, key: Any) -> str:
    """Return a key of a map as text; 7.0 is the id 7."""
    if not isinstance(key, (float, np.floating)):
        return str(key)
    check_exact(f"a key of {name}", np.float64(key) if type(key) is float else key)
    return str(int(key)) if key.is_integer() else str(key)


def check_exact(what: str, value: Any) -> None:
    """Raise a UserError for a NumPy float of a name that may have lost digits."""
    if not isinstance(value, np.floating):
        return
    least = _EXACT.get(value.itemsize, np.inf)
    if least <= abs(value) < np.inf:
        raise UserError(
            f"{what} is {float(value):.0f} in float{8 * value.itemsize}, where "
            f"different whole numbers from {least:,} on are the same; use integers or "
            "text"
        )


def _check_unique(what: str, given: Mapping, found: Mapping[str, Any]) -> None:
    if len(found) == len(given):
        return
    forms = collections.Counter(_key(what, key) for key in given)
    ((key, _),) = forms.most_common(1)
    raise ValueError(
        f"{what} has the key {key} in more than one form, such as text and number; "
        "expected each key once"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "mM":
        return [*value]
    if isinstance(value, (np.generic, np.ndarray)):
        if value.dtype.kind in "mM" and isinstance(value.tolist(), int):
            return _time(value)  # Python's times have no such precision
        return value.tolist()
    if isinstance(value, datetime.datetime):  # the text that columns of times have
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return _short(value.isoformat(sep=" "))
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def _time(value: np.datetime64 | np.ndarray) -> str:
    if value.dtype.kind == "m":
        raise TypeError("a duration is no type of JSON")
    return _short(str(value).replace("T", " "))


def _short(text: str) -> str:
    """Return the text of a time without the zeros at the end of its fraction."""
    return text.rstrip("0").rstrip(".") if "." in text else text


_ANY, _FINITE = (
    json.JSONEncoder(default=_plain, allow_nan=allowed, separators=(",", ":"))
    for allowed in (True, False)
)
