"""Observations as their space has them, for interfaces that never insisted on it.

Gymnasium environments are held to their spaces. Environments of older or other
interfaces return lists, Python numbers or float64 where the space says float32;
those, and nothing that would lose a value, are turned into the space's arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

Coerce = Callable[[Any], Any]


def coercer(space: gymnasium.Space) -> Coerce:
    """A function of an observation that gives it the dtype of its space.

    Numbers become floats of the width the space says; integers and bools become
    integers of another width where all values fit. Anything else passes as it is, for
    the checks of the worker to refuse.
    """
    if isinstance(space, gs.Dict):
        return _dict_coercer({key: coercer(each) for key, each in space.items()})
    if isinstance(space, gs.Tuple):
        return _tuple_coercer([coercer(child) for child in space.spaces])
    if isinstance(space, gs.Discrete):
        return _integer
    return _array_coercer(np.dtype(space.dtype))


def _array_coercer(dtype: np.dtype) -> Coerce:
    ndarray = np.ndarray
    sources = "fiub" if dtype.kind == "f" else "iub"

    def coerce(value):
        if type(value) is ndarray and value.dtype == dtype:
            return value
        try:
            array = np.asarray(value)
        except ValueError:  # lists of different lengths
            return value
        if array.dtype == dtype:
            return array
        if array.dtype.kind not in sources:
            return value
        with np.errstate(over="ignore"):  # infinity has its own check
            cast = array.astype(dtype)
        return cast if dtype.kind == "f" or (cast == array).all() else value

    return coerce


def _integer(value: Any) -> Any:
    """An integer array of one element as a number."""
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iub":
        return int(value.item())
    return int(value) if isinstance(value, np.bool_) else value


def _dict_coercer(children: dict[Any, Coerce]) -> Coerce:
    def coerce(value):
        if not isinstance(value, dict):
            return value
        return {
            key: children[key](each) if key in children else each
            for key, each in value.items()
        }

    return coerce


def _tuple_coercer(children: list[Coerce]) -> Coerce:
    def coerce(value):
        if not isinstance(value, (tuple, list)) or len(value) != len(children):
            return value
        return tuple(each(x) for each, x in zip(children, value, strict=True))

    return coerce
