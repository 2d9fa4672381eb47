"""Convert environments of other interfaces to ``gymnasium.Env``.

Interfaces are recognised by their methods, so no package is imported that the
environment has not imported itself. Runs in workers.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import gymnasium

from tfagents_batch.envs.shared import validation
from tfagents_batch.envs.shared.failures import Defect


def adapt(env: Any) -> Any:
    """Convert one environment of a known kind to a ``gymnasium.Env``.

    Those of legacy gym and ``dm_env.Environment`` are converted, with a UserError for
    spaces that are not supported. Any other object is returned unchanged.
    """
    if isinstance(env, gymnasium.Env):
        return env
    if _is_dm(env):
        from tfagents_batch.envs.wrappers.dm import DmEnv

        return DmEnv(env)
    if _is_legacy_gym(env):
        from tfagents_batch.envs.wrappers import legacy_gym

        return legacy_gym.adapt(env)
    return env


def is_environment(value: Any) -> bool:
    """Return whether ``value`` is an environment, not a class or function for one."""
    if isinstance(value, (type, str)):
        return False
    return (
        isinstance(value, gymnasium.Env) or _is_dm(value) or _is_legacy_gym(value)
    ) and not isinstance(value, gymnasium.vector.VectorEnv)


def _is_dm(value: Any) -> bool:
    methods = ("observation_spec", "action_spec", "reset", "step")
    return all(callable(getattr(value, name, None)) for name in methods)


def _is_legacy_gym(value: Any) -> bool:
    """Return whether the object or its observation space is of a class of gym."""
    if not all(hasattr(value, name) for name in ("reset", "step")):
        return False
    space = getattr(value, "observation_space", None)
    return any(
        base.__module__.partition(".")[0] == "gym"
        for kind in (type(value), type(space))
        for base in kind.__mro__
    )


def create(
    make: Callable[[], Any],
    wrap: Callable[[Any], Any] | None = None,
    close: bool = True,
) -> Any:
    """Create an environment by ``make``, adapt it, and wrap it.

    It is closed after an error, unless ``close`` is false. An object that is no
    environment is a Defect.
    """
    absl = sys.modules.get("absl.flags")
    if absl is not None and not absl.FLAGS.is_parsed():
        absl.FLAGS.mark_as_parsed()  # so that the environment may read flags
    original = make()
    try:
        env = adapt(original)
        if fault := validation.fault_of(env):
            text = f"the constructor returned {type(env).__name__}{fault}"
            raise Defect(text, "type", "constructor")
        return env if wrap is None else wrap(env)
    except BaseException:
        if close:
            with contextlib.suppress(Exception):  # report the first error only
                getattr(original, "close", lambda: None)()
        raise


class Reseeded(gymnasium.Env):
    """Environment that is created again for every seed.

    For environments with a seed in their constructor, as in dm_env: ``reset(seed=s)``
    creates a new one by ``make``, with an int in ``[0, 2**31)`` as its ``argument``.
    Resets without a seed continue with it.
    """

    def __init__(self, make: Callable[..., Any], argument: str):
        self._make = make
        self._argument = argument
        self._construct(0)  # for its spaces

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        if seed is not None:
            self.env.close()
            self._construct(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        return self.env.step(action)

    def render(self):
        return self.env.render()

    def close(self):
        self.env.close()

    def _construct(self, seed: int) -> None:
        env = create(lambda: self._make(**{self._argument: seed}))
        self.env = env
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.metadata = getattr(env, "metadata", {})
        self.render_mode = getattr(env, "render_mode", None)
