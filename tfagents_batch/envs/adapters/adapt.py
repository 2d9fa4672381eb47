"""What a constructor returned, as a ``gymnasium.Env``: where other interfaces end.

Objects are told by what they have, so no package is imported that the environment has
not imported itself. Runs in workers.
"""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium


def adapt(made: Any) -> Any:
    """Make one environment of a known kind a ``gymnasium.Env``.

    Args:
      made: what a constructor returned: a ``gymnasium.Env``, which is returned as it
        is, an environment of the legacy gym package or a ``dm_env.Environment``.

    Returns:
      a ``gymnasium.Env``; anything else is returned for others to refuse.

    Raises:
      UserError: for spaces or specs that are not supported.
    """
    if isinstance(made, gymnasium.Env):
        return made
    if _is_dm(made):
        from tfagents_batch.envs.adapters.dm import DmEnv

        return DmEnv(made)
    if _is_legacy_gym(made):
        from tfagents_batch.envs.adapters import legacy_gym

        return legacy_gym.adapt(made)
    return made


def is_environment(value: Any) -> bool:
    """Whether ``value`` is one environment, and not what makes one."""
    if isinstance(value, (type, str)):
        return False
    return (
        isinstance(value, gymnasium.Env) or _is_dm(value) or _is_legacy_gym(value)
    ) and not isinstance(value, gymnasium.vector.VectorEnv)


def is_tensor_env(thing: Any) -> bool:
    """Whether a class or an object has the functions of a ``TensorEnv``, see
    ``envs.tf.environment``.

    Told from other environments, whose ``step`` takes an action only, by the arguments
    of ``reset`` and ``step``: one and three.
    """
    return _takes(thing, "reset", 1) and _takes(thing, "step", 3)


def _is_dm(value: Any) -> bool:
    methods = ("observation_spec", "action_spec", "reset", "step")
    return all(callable(getattr(value, name, None)) for name in methods)


def _is_legacy_gym(value: Any) -> bool:
    """By its class, or by the classes of its spaces if it only behaves like one."""
    if not all(hasattr(value, name) for name in ("reset", "step")):
        return False
    space = getattr(value, "observation_space", None)
    return any(
        base.__module__.partition(".")[0] == "gym"
        for kind in (type(value), type(space))
        for base in kind.__mro__
    )


def _takes(thing: Any, method: str, count: int) -> bool:
    """Whether a method needs as many arguments, ``self`` not among them."""
    try:
        function = inspect.getattr_static(thing, method)
        parameters = inspect.signature(getattr(thing, method)).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return False
    needed = [
        each
        for each in parameters
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    unbound = isinstance(thing, type) and inspect.isfunction(function)
    return len(needed) == count + unbound
