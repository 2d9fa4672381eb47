"""Wrappers by name, as in the config of a run.

    [{"name": "TimeLimit", "max_episode_steps": 200}, "standard_stack"]

The first one is innermost. Names are those of this package and of ``GYMNASIUM``. These
lists are fixed, so another user's config cannot import anything. Runs in workers.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from tfagents_batch.envs import wrappers
from tfagents_batch.envs.adapters.adapt import create
from tfagents_batch.errors import UserError
from tfagents_batch.suggest import unknown

# Wrappers of Gymnasium with arguments that JSON can represent. The others take
# functions, open windows, write files, or learn statistics that no checkpoint saves.
# The oldest supported Gymnasium lacks some of them.
GYMNASIUM = tuple(
    name
    for name in (
        *("ClipReward", "DelayObservation", "DiscretizeAction"),
        "DiscretizeObservation",
        *("DtypeObservation", "FilterObservation", "FlattenObservation"),
        *("FrameStackObservation", "GrayscaleObservation", "MaxAndSkipObservation"),
        *("RepeatAction", "RescaleAction", "RescaleObservation", "ReshapeObservation"),
        *("ResizeObservation", "StickyAction", "TimeAwareObservation", "TimeLimit"),
    )
    if hasattr(gymnasium.wrappers, name)
)
NAMES = (*wrappers.__all__, *GYMNASIUM)
# Arguments that must be converted from JSON's types.
_TYPES: dict[str, Callable[[Any], Any]] = {
    "bins": lambda value: tuple(value) if isinstance(value, list) else value,
    "dtype": lambda value: np.dtype(value).type,
    "shape": tuple,
    # With 64-bit bounds Gymnasium would warn about every 32-bit Box.
    **dict.fromkeys(("min_action", "max_action", "min_obs", "max_obs"), np.float32),
}
# Exceptions that wrappers raise to refuse an environment or an argument.
_REFUSALS = UserError, TypeError, ValueError, AssertionError, gymnasium.error.Error
Entry = tuple[str, dict[str, Any]]  # name and arguments
Wrappers = Sequence[str | Mapping[str, Any]]


def check(listed: Wrappers) -> list[Entry]:
    """Return names and arguments of wrappers; no environment is needed.

    Args:
      listed: names, or objects with a "name" and the arguments.

    Raises:
      UserError: naming the entry, for an unknown wrapper, or for an unknown or missing
        argument.
    """
    if isinstance(listed, (str, Mapping)) or not isinstance(listed, Sequence):
        raise UserError(
            f'wrappers is {listed!r}; expected a list, such as ["standard_stack"]'
        )
    return [_entry(f"wrappers[{index}]", entry) for index, entry in enumerate(listed)]


def wrapped(make: Callable[[], Any], listed: Wrappers) -> Callable[[], Any]:
    """Return a constructor of the wrapped environment that cloudpickle keeps small.

    Args:
      make: constructor from ``registry.constructor``.
      listed: as for ``check``.

    Raises:
      UserError: as ``check``. The constructor raises it if a wrapper does not fit the
        environment.
    """
    entries = check(listed)
    if not entries:
        return make
    return functools.partial(create, make, functools.partial(_wrap, entries=entries))


def refuse(listed: Wrappers, what: str, instead: str) -> None:
    """Refuse wrappers for a batch that has no single environments to wrap.

    Raises:
      UserError: if there are any.
    """
    if check(listed):
        raise UserError(f"wrappers cannot be put around {what}; {instead}")


def _entry(place: str, entry: Any) -> Entry:
    if isinstance(entry, str):
        name, arguments = entry, {}
    else:
        arguments = dict(entry) if isinstance(entry, Mapping) else {}
        name = arguments.pop("name", None)
    if not isinstance(name, str):
        raise UserError(
            f'{place} is {entry!r}; expected a name, or an object such as {{"name": '
            '"ActionRepeat", "amount": 2}'
        )
    if name not in NAMES:
        raise UserError(f"{place}: {unknown('wrapper', name, NAMES)}")
    _, *parameters = inspect.signature(_wrapper(name)).parameters.values()
    known = {parameter.name for parameter in parameters}
    for argument in arguments:
        if argument not in known:
            raise UserError(f"{place}, {name}: {unknown('argument', argument, known)}")
    for parameter in parameters:
        required = parameter.default is parameter.empty
        if required and parameter.name not in arguments:
            raise UserError(
                f"{place}, {name}: the argument {parameter.name!r} is missing"
            )
    return name, arguments


def _wrapper(name: str) -> Callable[..., gymnasium.Env]:
    return getattr(gymnasium.wrappers if name in GYMNASIUM else wrappers, name)


def _wrap(env: Any, entries: Sequence[Entry]) -> gymnasium.Env:
    for index, (name, arguments) in enumerate(entries):
        try:
            if name in GYMNASIUM:
                typed = {key: _TYPES[key] for key in arguments if key in _TYPES}
                values = {key: typed[key](arguments[key]) for key in typed}
                arguments = arguments | values
            env = _wrapper(name)(env, **arguments)
        except _REFUSALS as error:
            raise UserError(f"wrappers[{index}], {name}: {error}") from error
    return env
