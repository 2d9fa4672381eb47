"""Rules for the values that an environment returns, except its observations.

Workers and batches raise the first Defect, see ``refuse``, and ``check_env`` collects
all of them. ``observation_rules`` has the rules for observations.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium
import numpy as np

from tfagents_batch.envs.shared.failures import Defect

FLOAT_MAX = float(np.finfo(np.float32).max)
_WEIGHED = (
    "such as a weighted sum; a wrapper can do that, such as "
    "wrappers=['mo_gymnasium.wrappers:LinearReward']"
)
GYM_EXTRA = 'pip install "tfagents_batch[gym]"'
_NUMBER = (float, int, np.floating, np.integer, np.bool_)
_FLAG = (bool, np.bool_)
_FULL_CHECKS = 100  # number of first steps in which all rules are applied
_FULL_CHECK_EVERY = 1000  # steps between later ones
_FIELDS = {
    2: ("observation", "info"),
    4: ("observation", "reward", "done", "info"),
    5: ("observation", "reward", "terminated", "truncated", "info"),
}
FIX_FINITE = "look for a division by 0, a logarithm of 0 or a number that only grows"


def refuse(defects: Iterable[Defect]) -> None:
    """Raise the first defect, if there is one."""
    for defect in defects:
        raise defect


def is_full_check(count: int) -> bool:
    """Return whether step number ``count`` of an environment applies all rules."""
    return count < _FULL_CHECKS or count % _FULL_CHECK_EVERY == 0


def fault_of(env: Any) -> str:
    """Return why an object is no Gymnasium environment; empty if it looks like one."""
    if hasattr(env, "possible_agents"):
        return (
            ", an environment of several agents, but one agent is trained; expected a "
            "gymnasium.Env: pass a function that returns one in which the other agents "
            "act by themselves"
        )
    missing = [
        name
        for name in ("reset", "step", "observation_space", "action_space")
        if not hasattr(env, name)
    ]
    if missing:
        return f", without {', '.join(missing)}; expected a gymnasium.Env"
    if is_tensor_env(env):
        return (
            ", which is written in TensorFlow; pass its class, an object or its name, "
            "not a function that creates one"
        )
    if isinstance(env, gymnasium.vector.VectorEnv):
        return ", a batch of environments; expected a single gymnasium.Env"
    if isinstance(env, gymnasium.Env):  # its spaces are checked later
        return ""
    for name in ("observation_space", "action_space"):
        kind = type(getattr(env, name))
        if not issubclass(kind, gymnasium.Space):
            return (
                f", whose {name} is a {kind.__name__} of {kind.__module__}; expected a "
                "space of gymnasium.spaces: install gym if its package is for the "
                f"legacy gym ({GYM_EXTRA}), or wrap it in a gymnasium.Env"
            )
    return ""


def fields(result: Any) -> dict[str, Any]:
    """Split a result of ``reset`` or ``step`` into fields, in any known form.

    A result of another form is returned as the observation, as from ``reset`` in the
    legacy API.
    """
    known = isinstance(result, tuple) or (isinstance(result, list) and len(result) == 5)
    names = _FIELDS.get(len(result)) if known else None
    return dict(zip(names, result, strict=True)) if names else {"observation": result}


def reset_defects(result: Any) -> Iterator[Defect]:
    """Yield what is wrong with a result of ``reset``, except with its observation."""
    if isinstance(result, tuple) and len(result) == 2:
        yield from info_defects(result[1])
        return
    text = (
        f"reset() returned {kind_of(result)}; expected a tuple of observation, info "
        "(the legacy gym API returned the observation alone: return observation, {})"
    )
    yield Defect(text, "type", "reset()")


def step_defects(result: Any) -> Iterator[Defect]:
    """Yield what is wrong with a result of ``step``, except with its observation."""
    yield from step_form_defects(result)
    values = fields(result)
    for name in ("terminated", "truncated"):
        flag = values.get(name, False)
        if not isinstance(flag, _FLAG):
            text = (
                f"{name} is {flag!r} of type {type(flag).__name__}; expected a bool: "
                f"return bool({name})"
            )
            yield Defect(text, "type", name)
    if "reward" not in values:
        return
    reward = values["reward"]
    if not isinstance(reward, _NUMBER):
        kind, fix = type(reward).__name__, "float(reward)"
        if isinstance(reward, np.ndarray):
            kind = f"an array of shape {reward.shape}"
            fix = "reward.item()" if reward.size == 1 else f"one number, {_WEIGHED}"
        text = f"reward is {kind}; expected a number: return {fix}"
        yield Defect(text, "type", "reward")
    yield from info_defects(values["info"])


def plain(result: tuple[Any, ...]) -> tuple[float, bool, bool]:
    """Return reward, terminated and truncated of five values as Python's types.

    Raises:
      Defect: if one of them, or the info, has another type.
    """
    _, reward, terminated, truncated, info = result
    flags = isinstance(terminated, _FLAG) and isinstance(truncated, _FLAG)
    if not (flags and isinstance(reward, _NUMBER) and isinstance(info, dict)):
        refuse(step_defects(result))
    return float(reward), bool(terminated), bool(truncated)


def step_form_defects(result: Any) -> Iterator[Defect]:
    """Yield the defect of a result of ``step`` that is no tuple of five."""
    if isinstance(result, tuple) and len(result) == 5:
        return
    if isinstance(result, tuple) and len(result) == 4:
        text = (
            "step() returned 4 values, the legacy gym API; expected observation, "
            "reward, terminated, truncated, info: split done into terminated (the task "
            "ended) and truncated (a time limit cut it off)"
        )
        yield Defect(text, "legacy", "step()")
        return
    text = (
        f"step() returned {kind_of(result)}; expected a tuple of five: return "
        "observation, reward, terminated, truncated, info"
    )
    yield Defect(text, "type", "step()")


def info_defects(value: Any) -> Iterator[Defect]:
    """Yield the defect of an info that is no dict."""
    if not isinstance(value, dict):
        text = (
            f"info is {type(value).__name__}; expected a dict: return {{}} if there "
            "is nothing to report"
        )
        yield Defect(text, "type", "info")


def reward_defects(value: float, row: int | None = None) -> Iterator[Defect]:
    """Yield the defect of a reward that float32 does not have, in a row of a batch."""
    if not -FLOAT_MAX <= value <= FLOAT_MAX:  # true for NaN
        text = f"reward is {value}; expected a finite float32: {FIX_FINITE}"
        yield Defect(text, "finite", "reward", row)


def missing_info(dtype: np.dtype) -> Any:
    """Return the value of an info column for a missing number: NaN, 0 or false."""
    return np.nan if dtype.kind == "f" else 0


def info_numbers(name: str, value: Any, column: Any) -> np.ndarray:
    """Return a value of info, or of a batch's info, that is copied into a column.

    A Defect is raised unless it has the column's shape, and fits its dtype.
    """
    array = np.asarray(value)
    fits = np.can_cast(array.dtype, column.dtype, "same_kind")
    if array.shape == column.shape and fits:
        return array
    got = kind_of(value) if isinstance(value, np.ndarray) else repr(value)
    expected = f"{list(column.shape)} numbers" if column.shape else "a number"
    text = (
        f"info[{name!r}] is {got}; expected {expected} that {column.dtype} can hold, "
        "as declared in info_keys"
    )
    raise Defect(text, "type", "info")


def kind_of(value: Any) -> str:
    """Return a short description of a value's type."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, np.ndarray):
        return f"an array, {value.dtype} {list(value.shape)}"
    return "None" if value is None else f"a {type(value).__name__}"


def is_tensor_env(thing: Any) -> bool:
    """Return whether a class or an object has the methods of a ``TensorEnv``.

    Its ``reset`` takes one argument and its ``step`` three, see
    ``envs.tf.environment``. ``step`` of other environments takes only an action.
    """
    return _takes(thing, "reset", 1) and _takes(thing, "step", 3)


def _takes(thing: Any, method: str, count: int) -> bool:
    """Return whether a method has ``count`` required arguments besides ``self``."""
    try:
        function = inspect.getattr_static(thing, method)
        parameters = inspect.signature(getattr(thing, method)).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return False
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    needed = [x for x in parameters if x.default is x.empty and x.kind in positional]
    unbound = isinstance(thing, type) and inspect.isfunction(function)
    return len(needed) == count + unbound
