"""What lies beneath a wrapper, and checks that all wrappers make."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch.errors import UserError


def walk(env: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """The environment itself, then layer by layer what it wraps."""
    layer = env
    while layer is not None:
        yield layer
        layer = getattr(layer, "__dict__", {}).get("env")


def time_limit(env: gymnasium.Env) -> int | None:
    """Most steps of an episode, counted as ``env`` counts them; None if unknown.

    The outermost wrapper that counts steps decides: beneath an ``ActionRepeat`` there
    may be a limit in other steps. Where none counts, it is what an environment is
    registered with. (The ``spec`` of a wrapper around an ``ActionRepeat`` has the limit
    in the steps beneath it.)
    """
    counted = (getattr(x, "__dict__", {}).get("_max_episode_steps") for x in walk(env))
    specs = (getattr(layer, "spec", None) for layer in walk(env))
    registered = (getattr(spec, "max_episode_steps", None) for spec in specs)
    known = (x for x in itertools.chain(counted, registered) if x is not None)
    limit = next(known, None)
    return None if limit is None else int(limit)


def count(wrapper: str, name: str, value: Any, least: int = 1) -> int:
    """``value`` as an int of at least ``least``.

    Raises:
      UserError: if it is none.
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least:
        raise UserError(
            f"{wrapper}: {name} is {value!r}; expected an integer, at least {least}"
        )
    return int(value)


def indices(
    wrapper: str,
    name: str,
    values: Any,
    suited: Callable[[list[int]], bool],
    expected: str,
) -> list[int]:
    """``values`` as a list of integers of at least 0.

    Raises:
      UserError: if they are none, or not ``suited``; with what was ``expected``.
    """
    try:
        values = list(values)
        found = [count(wrapper, f"one of {name}", each, least=0) for each in values]
        if suited(found):
            return found
    except TypeError:  # no list
        pass
    raise UserError(f"{wrapper}: {name} is {values!r}; expected {expected}")


def shaped(wrapper: str, what: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """``value`` as an array of the space's shape, which is not broadcast.

    Raises:
      ValueError: for another shape.
    """
    array = np.asarray(value)
    if array.shape != shape:
        raise ValueError(
            f"{wrapper}: the {what} has shape {list(array.shape)}; the space says "
            f"{list(shape)}"
        )
    return array


def box(wrapper: str, field: str, space: gymnasium.Space) -> gs.Box:
    """``space``, which has to be a Box.

    Raises:
      UserError: if it is not.
    """
    if isinstance(space, gs.Box):
        return space
    raise UserError(f"{wrapper}: the {field} space is {space}; expected a Box")


def refuse_restarts(wrapper: str, env: gymnasium.Env) -> None:
    """Refuse an environment that restarts itself inside ``step``.

    A wrapper that keeps something between steps would carry it over into the next
    episode, because it sees no ``reset``.

    Raises:
      UserError: naming both wrappers.
    """
    for layer in walk(env):
        name = type(layer).__name__
        if isinstance(layer, gymnasium.wrappers.Autoreset):
            raise UserError(
                f"{wrapper} cannot wrap {name}, whose restarts it would not see; put "
                f"{name} outermost, and in a batch leave it out: the batch restarts "
                "environments itself"
            )
