"""Spaces as JSON in an export, see ``spaces.to_json``, without Gymnasium."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


def check(space: Any, where: str) -> None:
    """Check that a space has all that later steps read of it.

    Raises:
      ValueError: naming what is wrong and where.
    """
    kind = space.get("type") if isinstance(space, Mapping) else None
    if kind in ("Dict", "Tuple"):
        inner = space.get("spaces")
        if not isinstance(inner, dict if kind == "Dict" else list):
            raise ValueError(f"{where}.spaces of a {kind}")
        pairs = inner.items() if kind == "Dict" else enumerate(inner)
        for key, each in pairs:
            check(each, f"{where}.{key}")
        return
    needed = _NEEDED.get(kind)
    if needed is None:
        raise ValueError(f"{where}: a space of the type {kind!r:.50}")
    for name, is_right in needed.items():
        if not is_right(space.get(name)):
            value = repr(space[name]) if name in space else "missing"
            raise ValueError(f"{where}.{name} of a {kind}, which is {value:.80}")
    if kind == "MultiDiscrete" and np.shape(space["nvec"]) != np.shape(space["start"]):
        raise ValueError(f"{where}.start, which has another shape than nvec")


def at(space: Mapping[str, Any], path: Sequence[str | int]) -> Mapping[str, Any]:
    """Return the space that keys of Dicts and Tuples lead to."""
    for key in path:
        space = space["spaces"][key]
    return space


def bounds(space: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """Return the smallest and largest whole numbers; None for a Box.

    The bounds of a Box may differ between the environment and what is observed.
    """
    if space["type"] == "Discrete":
        return space["start"], space["start"] + space["n"] - 1
    if space["type"] == "MultiDiscrete":
        low = np.asarray(space["start"])
        return low, low + np.asarray(space["nvec"]) - 1
    return (0, 1) if space["type"] == "MultiBinary" else None


def outside(array: np.ndarray, bounds: tuple[Any, Any]) -> np.ndarray:
    """Return where numbers are not within ``bounds``, which have the last axes."""
    low, high = bounds
    return (array < low) | (array > high)


def _is_whole(value: Any) -> bool:
    return type(value) is int


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value > 0


def _is_list_of(is_right: Callable[[Any], bool], *, nested: bool = False) -> Any:
    def test(value: Any) -> bool:
        if not isinstance(value, list):
            return False
        return all(is_right(x) or (nested and test(x)) for x in value)

    return test


def _is_size(value: Any) -> bool:
    return _is_count(value) or (bool(value) and _is_list_of(_is_count)(value))


def _is_array(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a test of nested lists with the same length at each level."""
    inside = _is_list_of(is_right, nested=True)

    def test(value: Any) -> bool:
        try:
            return inside(value) and np.asarray(value).size > 0
        except ValueError:  # lists of unequal lengths
            return False

    return test


_NEEDED: dict[Any, dict[str, Callable[[Any], bool]]] = {
    "Discrete": {"n": _is_count, "start": _is_whole},
    "MultiDiscrete": {"nvec": _is_array(_is_count), "start": _is_array(_is_whole)},
    "MultiBinary": {"n": _is_size},
    "Box": {
        "shape": _is_list_of(lambda x: _is_whole(x) and x >= 0),
        "dtype": lambda x: isinstance(x, str),
    },
}
