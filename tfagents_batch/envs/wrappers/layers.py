"""Inner layers of a wrapper, and checks that all wrappers share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch.errors import UserError


def walk(env: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """Yield the environment itself, then each inner layer that it wraps."""
    layer = env
    while layer is not None:
        yield layer
        layer = getattr(layer, "__dict__", {}).get("env")


def time_limit(env: gymnasium.Env) -> int | None:
    """Return the time limit in steps of ``env``; None if unknown.

    It is the limit of the outermost wrapper that has one, because a limit inside an
    ``ActionRepeat`` counts inner steps. Without such a wrapper it is the limit of the
    registration. (Around an ``ActionRepeat``, ``spec`` still has the limit in inner
    steps.)
    """
    counted = (getattr(x, "__dict__", {}).get("_max_episode_steps") for x in walk(env))
    specs = (getattr(layer, "spec", None) for layer in walk(env))
    registered = (getattr(spec, "max_episode_steps", None) for spec in specs)
    known = (x for x in itertools.chain(counted, registered) if x is not None)
    limit = next(known, None)
    return None if limit is None else int(limit)


def count(wrapper: str, name: str, value: Any, least: int = 1) -> int:
    """Return ``value`` as an int of at least ``least``, or raise a UserError."""
    integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not integer or value < least:
        raise UserError(
            f"{wrapper}: {name} is {value!r}; expected an integer, at least {least}"
        )
    return int(value)


def indices(
    wrapper: str,
    name: str,
    values: Any,
    valid: Callable[[list[int]], bool],
    expected: str,
) -> list[int]:
    """Return ``values`` as ``valid`` integers of at least 0, or raise a UserError."""
    try:
        values = list(values)
        checked = [count(wrapper, f"one of {name}", value, least=0) for value in values]
        if valid(checked):
            return checked
    except TypeError:  # not a list
        pass
    raise UserError(f"{wrapper}: {name} is {values!r}; expected {expected}")


def shaped(wrapper: str, what: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return ``value`` as an array, or raise a ValueError for another shape."""
    array = np.asarray(value)
    if array.shape != shape:
        raise ValueError(
            f"{wrapper}: the {what} has shape {list(array.shape)}; expected the "
            f"shape of the space, {list(shape)}"
        )
    return array


def box(wrapper: str, field: str, space: gymnasium.Space) -> gs.Box:
    """Return ``space``, or raise a UserError if it is not a Box."""
    if isinstance(space, gs.Box):
        return space
    raise UserError(f"{wrapper}: the {field} space is {space}; expected a Box")


def refuse_restarts(wrapper: str, env: gymnasium.Env) -> None:
    """Refuse an environment that restarts itself inside ``step``.

    A wrapper that stores state between steps would carry it over into the next
    episode, because it sees no ``reset``.
    """
    for layer in walk(env):
        name = type(layer).__name__
        if isinstance(layer, gymnasium.wrappers.Autoreset):
            raise UserError(
                f"{wrapper} cannot wrap {name}, because it sees no restarts of it; put "
                f"{name} outermost, and in a batch leave it out: the batch restarts "
                "environments itself"
            )
