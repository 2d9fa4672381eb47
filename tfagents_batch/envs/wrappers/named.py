"""Wrappers by name, as in the config of a run.

    [{"name": "TimeLimit", "max_episode_steps": 200}, "standard_stack"]

The first one is innermost. Names are those of this package and of ``GYMNASIUM``; any
other wrapper is ``package.module:Wrapper`` or ``./file.py:Wrapper``. Such a module is
imported by ``wrapped`` only. A run folder stores the name, but nothing calls
``wrapped`` with it unless the user passes it again. Runs in workers.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from tfagents_batch.envs import wrappers
from tfagents_batch.envs.shared import user_code
from tfagents_batch.envs.wrappers.adapt import create
from tfagents_batch.errors import UserError
from tfagents_batch.settings.suggest import unknown

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
_OWN = "package.module:Wrapper or ./file.py:Wrapper"
Entry = tuple[str, dict[str, Any]]  # name and arguments
Wrappers = Sequence[str | Mapping[str, Any]]
"""Wrappers, the innermost first: names, or ``{"name": ..., "<argument>": ...}``."""


def check(listed: Wrappers) -> list[Entry]:
    """Return names and arguments of wrappers; nothing is created or imported.

    The arguments of modules' wrappers are checked by ``wrapped``, which imports them.

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


def of_modules(listed: Wrappers) -> list[str]:
    """Return the names of wrappers that are imported from modules or files."""
    return [name for name, _ in check(listed) if ":" in name]


def wrapped(make: Callable[[], Any], listed: Wrappers) -> Callable[[], Any]:
    """Return a constructor of the wrapped environment that cloudpickle keeps small.

    Args:
      make: constructor from ``registry.constructor``.
      listed: as for ``check``.

    Raises:
      UserError: as ``check``, or for a wrapper that cannot be imported. The constructor
        raises it if a wrapper does not fit the environment.
    """
    entries = [_located(index, *entry) for index, entry in enumerate(check(listed))]
    if not entries:
        return make
    return functools.partial(create, make, functools.partial(_wrap, entries=entries))


def refuse(listed: Wrappers, what: str, instead: str) -> None:
    """Refuse wrappers for a batch that has no single environments to wrap."""
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
    if ":" in name:
        return name, arguments
    if name not in NAMES:
        what = unknown("wrapper", name, NAMES)
        raise UserError(f"{place}: {what}; one of a module is {_OWN}")
    _check_arguments(f"{place}, {name}", _wrapper(name), arguments)
    return name, arguments


def _located(index: int, name: str, arguments: dict[str, Any]) -> Entry:
    """Return an entry that workers find; import a module's wrapper and check it."""
    if ":" not in name:
        return name, arguments
    place = f"wrappers[{index}]"
    module, target = user_code.split(name, "wrapper")
    if not module or not target:
        raise UserError(f"{place} is {name!r}; expected {_OWN}")
    wrapper = user_code.import_attribute(name, module, target, "wrapper")
    if not callable(wrapper):
        raise UserError(
            f"{place}: {name} is of type {type(wrapper).__name__}; expected a class or "
            "a function that wraps an environment"
        )
    _check_arguments(f"{place}, {name}", wrapper, arguments)
    return f"{module}:{target}", arguments


def _check_arguments(
    place: str, wrapper: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    """Refuse arguments that a wrapper lacks or misses; its first is the environment."""
    parameters = _parameters(wrapper)[1:]
    any_name = any(x.kind is x.VAR_KEYWORD for x in parameters)
    parameters = [
        x for x in parameters if x.kind not in (x.VAR_KEYWORD, x.VAR_POSITIONAL)
    ]
    known = {parameter.name for parameter in parameters}
    for argument in arguments:
        if argument not in known and not any_name:
            raise UserError(f"{place}: {unknown('argument', argument, known)}")
    for parameter in parameters:
        required = parameter.default is parameter.empty
        if required and parameter.name not in arguments:
            raise UserError(f"{place}: the argument {parameter.name!r} is missing")


def _wrapper(name: str) -> Callable[..., Any]:
    if ":" in name:
        module, _, target = name.rpartition(":")
        return user_code.attribute(user_code.load(module), target)
    return getattr(gymnasium.wrappers if name in GYMNASIUM else wrappers, name)


def _wrap(env: Any, entries: Sequence[Entry]) -> gymnasium.Env:
    for index, (name, arguments) in enumerate(entries):
        try:
            wrapper = _wrapper(name)
            env = wrapper(env, **_typed(name, wrapper, arguments))
        except _REFUSALS as error:
            raise UserError(f"wrappers[{index}], {name}: {error}") from error
        if not isinstance(env, gymnasium.Env):
            raise UserError(
                f"wrappers[{index}], {name} returned {type(env).__name__}; expected a "
                "gymnasium.Env"
            )
    return env


def _typed(
    name: str, wrapper: Callable[..., Any], arguments: dict[str, Any]
) -> dict[str, Any]:
    """Return arguments with the types that JSON lacks.

    A list becomes an array where a module's wrapper has the annotation np.ndarray.
    """
    if name in GYMNASIUM:
        return arguments | {
            key: _TYPES[key](value) for key, value in arguments.items() if key in _TYPES
        }
    kinds = {x.name: x.annotation for x in _parameters(wrapper)} if ":" in name else {}
    arrays = {
        key: np.asarray(value)
        for key, value in arguments.items()
        if isinstance(value, list)
        and np.ndarray in (kinds.get(key), *typing.get_args(kinds.get(key)))
    }
    return arguments | arrays


def _parameters(wrapper: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a wrapper; arguments of any name if they are unknown."""
    for evaluated in (True, False):  # annotations may be text that cannot be evaluated
        try:
            signature = inspect.signature(wrapper, eval_str=evaluated)
            return list(signature.parameters.values())
        except Exception:
            continue
    kind = inspect.Parameter
    return [kind("env", kind.POSITIONAL_ONLY), kind("arguments", kind.VAR_KEYWORD)]
