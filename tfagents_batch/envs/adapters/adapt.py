"""What a constructor returned, as a ``gymnasium.Env``: where other interfaces end.

Objects are told by what they have, so no package is imported that the environment has
not imported itself. Runs in workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import gymnasium

from tfagents_batch.envs.shared import validation


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


def made_by(make: Callable[[], Any], wrap: Callable[[Any], Any] | None = None) -> Any:
    """What ``make`` returns, adapted; closed again if it is no environment.

    Args:
      make: a constructor.
      wrap: function of the environment, that puts wrappers around it.

    Raises:
      Defect: if it is none; UserError, and whatever ``make`` and ``wrap`` raise.
    """
    made = make()
    try:
        env = adapt(made)
        validation.environment(env)
        return env if wrap is None else wrap(env)
    except BaseException:
        with contextlib.suppress(Exception):  # the first error is the one to tell
            getattr(made, "close", lambda: None)()
        raise
