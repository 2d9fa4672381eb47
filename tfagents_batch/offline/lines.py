"""A logged row as a line of JSON."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfagents_batch.errors import UserError

_VECTORS = ("state_features", "final_state_features", "action")


def to_line(row: Mapping[str, Any], finite: bool = False) -> str:
    """Return a row as JSON without a line break.

    Numbers and arrays of NumPy are allowed. A vector of features becomes a map whose
    ids are 0, 1, and so on.

    Args:
      row: values by column.
      finite: refuse NaN and infinity, which are not part of JSON.

    Raises:
      UserError: if the row is no mapping or has a value that JSON does not have.
    """
    if not isinstance(row, Mapping):
        raise UserError(
            f"a row is {row!r:.200}; expected a dict with the columns of logged rows"
        )
    try:
        plain = {str(name): _value(name, value) for name, value in row.items()}
        return (_FINITE if finite else _ANY).encode(plain)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"a row cannot be written as JSON: {error}: {row!r:.200}"
        ) from None


def _value(name: str, value: Any) -> Any:
    if isinstance(value, (str, int, float)):  # most values, so the first test
        return value
    if isinstance(value, (dict, Mapping)):  # ``Mapping`` is a slow test
        return {_key(key): each for key, each in value.items()}
    if name in _VECTORS and isinstance(value, (list, tuple, np.ndarray)):
        return {str(key): each for key, each in enumerate(np.ravel(value).tolist())}
    if isinstance(value, (list, tuple)):
        return [_value("", each) for each in value]
    return value


def _key(key: Any) -> str:
    """Return a key of a map as text; 7.0 is the id 7."""
    is_float = isinstance(key, (float, np.floating))
    return str(int(key)) if is_float and key.is_integer() else str(key)


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, datetime.datetime):  # the text that columns of times have
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        text = value.isoformat(sep=" ")
        return text.rstrip("0") if "." in text else text
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is no type of JSON")


_ANY, _FINITE = (
    json.JSONEncoder(default=_plain, allow_nan=allowed, separators=(",", ":"))
    for allowed in (True, False)
)
