"""Adapter of gym 0.26, the last release of the legacy gym, to ``gymnasium.Env``.

It serves ids such as ``gym:CartPole-v1``, and gym environments that a user's function
returns. Each call may use the old or the new interface: ``step`` with ``done`` or with
``terminated`` and ``truncated``, ``reset`` with or without info, ``seed(s)`` or
``reset(seed=s)``.

gym is not maintained and breaks with NumPy 2 in a few places. Environments created here
do not get gym's checker. Some modules of gym get back the names that NumPy removed; no
module outside gym is changed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import sys
import types
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.shared.observations import coerce
from tfagents_batch.envs.shared.validation import GYM_EXTRA
from tfagents_batch.errors import UserError
from tfagents_batch.settings import suggest

# Names that NumPy removed and gym 0.26 still uses, and the modules that use them.
_REMOVED_NAMES = {"bool8": np.bool_, "float_": np.float64, "float": float}
_BROKEN_MODULES = (
    "gym.envs.classic_control.acrobot",
    "gym.utils.passive_env_checker",
    "gym.wrappers.pixel_observation",
)
# Outermost wrappers of gym.make; ours do the same and accept both interfaces.
_TIME_LIMIT = ("gym.wrappers.time_limit", "TimeLimit")
_MAKE_WRAPPERS = {
    _TIME_LIMIT,
    ("gym.wrappers.order_enforcing", "OrderEnforcing"),
    ("gym.wrappers.env_checker", "PassiveEnvChecker"),
}


class LegacyGymEnv(gymnasium.Env):
    """Adapter of one gym environment to Gymnasium's interface.

    ``done`` becomes ``truncated`` if ``info["TimeLimit.truncated"]`` is true, else
    ``terminated``. A seed goes to ``reset(seed=...)`` if the environment and its
    wrappers take it, else to ``seed(...)``; an environment with neither cannot be
    seeded. Observations are converted to the dtype of their space (``coerce``). Options
    of a reset are not passed on. A space that is not supported is a UserError.

    Args:
      env: gym environment; its spaces become Gymnasium's.
      render_mode: mode for environments with a ``render`` that takes one.
    """

    def __init__(self, env: Any, render_mode: str | None = None):
        name = type(_unwrapped(env)).__name__
        if any(base.__name__ == "VectorEnv" for base in type(env).__mro__):
            raise UserError(
                f"{name} is a batch of gym environments; pass a function that creates "
                "one environment"
            )
        self.env = env
        self.observation_space = convert_space(env.observation_space, name)
        self.action_space = convert_space(env.action_space, name)
        self.metadata = getattr(env, "metadata", None) or {"render_modes": []}
        self._native_mode = getattr(env, "render_mode", None)
        self.render_mode = self._native_mode or render_mode
        self._coerce = functools.partial(coerce, self.observation_space)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        result = self.env.reset(**({} if seed is None else self._seed(seed)))
        if isinstance(result, tuple) and len(result) == 2 and type(result[1]) is dict:
            return self._coerce(result[0]), result[1]
        return self._coerce(result), {}

    def step(self, action):
        result = self.env.step(action)
        if not isinstance(result, tuple) or len(result) not in (4, 5):
            return result  # the worker refuses it
        if len(result) == 5:
            return self._coerce(result[0]), *result[1:]
        observation, reward, done, info = result
        if not isinstance(done, (bool, np.bool_, int, np.integer)):
            raise Defect(f"done is {done!r}; expected a bool")
        limited = isinstance(info, dict) and bool(info.get("TimeLimit.truncated"))
        flags = bool(done) and not limited, bool(done) and limited
        return self._coerce(observation), reward, *flags, info

    def render(self):
        if self._native_mode is not None or self.render_mode is None:
            return self.env.render()
        return self.env.render(mode=self.render_mode)

    def close(self):
        self.env.close()

    def _seed(self, seed: int) -> dict[str, int]:
        """Seed the environment, or return the argument of ``reset`` that does."""
        # The environment may sample from it, so it needs a seed too.
        self.env.action_space.seed(seed)
        *wrappers, base = _layers(self.env)
        accepted = _parameters(base.reset)
        forwarded = all({"seed", "**"} & _parameters(x.reset) for x in wrappers)
        if "seed" in accepted and not forwarded:
            base.reset(seed=seed)  # its generator continues in the next reset
            return {}
        if "seed" not in accepted and callable(getattr(self.env, "seed", None)):
            self.env.seed(seed)
            return {}
        return {"seed": seed} if forwarded and {"seed", "**"} & accepted else {}


def adapt(
    env: Any, max_episode_steps: int | None = None, render_mode: str | None = None
) -> gymnasium.Env:
    """Convert a gym environment to a ``gymnasium.Env``.

    The outermost wrappers of ``gym.make`` are replaced by Gymnasium's ``TimeLimit``,
    because gym's own accepts the newer interface only. ``max_episode_steps`` replaces
    its limit.
    """
    _restore_numpy_names()
    limit = None
    while (type(env).__module__, type(env).__name__) in _MAKE_WRAPPERS:
        if (type(env).__module__, type(env).__name__) == _TIME_LIMIT:
            inner = env._max_episode_steps
            limit = inner if limit is None else min(limit, inner)
        env = env.env
    adapted: gymnasium.Env = LegacyGymEnv(env, render_mode)
    limit = limit if max_episode_steps is None else max_episode_steps
    if limit is None:
        return adapted
    return gymnasium.wrappers.TimeLimit(adapted, int(limit))


def make(id: str, kwargs: dict[str, Any], module: str | None = None) -> gymnasium.Env:
    """Create an environment of gym's registry; runs in workers.

    ``module`` is imported first. The arguments may have ``max_episode_steps`` and
    ``render_mode``.
    """
    gym = _load()
    if module is not None:
        importlib.import_module(module)
    kwargs = {"disable_env_checker": True, **kwargs}
    limit = kwargs.pop("max_episode_steps", None)
    with warnings.catch_warnings():
        # The learner warns once.
        warnings.filterwarnings("ignore", ".*is out of date")
        try:
            return adapt(gym.make(id, **kwargs), limit)
        except TypeError as error:
            if "render_mode" not in kwargs or "'render_mode'" not in str(error):
                raise
            # The render of older environments takes the mode instead.
            mode = kwargs.pop("render_mode")
            return adapt(gym.make(id, **kwargs), limit, mode)


def require_gym(name: str) -> None:
    """Raise UserError if gym is not installed."""
    if importlib.util.find_spec("gym") is None:
        raise UserError(f"environment {name!r} needs gym: {GYM_EXTRA}")


def check(name: str, id: str) -> None:
    """Refuse, in the learner, an id that ``make`` cannot create."""
    require_gym(name)
    registry = registered()
    if id not in registry:
        hint = suggest.similar_id(id, registry)
        hint = f"; {hint}" if hint else ""
        raise UserError(f"environment {name!r} does not exist in gym{hint}")
    suggest.warn_of_age(name, id, registry)


def registered(envs: types.ModuleType | None = None) -> dict[str, Any]:
    """Return gym's specs by id, from its module ``gym.envs``; None imports it."""
    return (envs or _load().envs).registration.registry


def convert_space(space: Any, env: str, where: str = "") -> gymnasium.Space:
    """Convert a space of gym to Gymnasium's; a UserError names an unsupported one."""
    if isinstance(space, gymnasium.Space):
        return space
    kinds = {base.__name__ for base in type(space).__mro__}
    if "Box" in kinds:
        dtype = np.dtype(space.dtype).type
        return gs.Box(np.asarray(space.low), np.asarray(space.high), space.shape, dtype)
    if "Discrete" in kinds:
        return gs.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if "MultiDiscrete" in kinds:
        return gs.MultiDiscrete(np.asarray(space.nvec, np.int64))
    if "MultiBinary" in kinds:
        n = space.n
        return gs.MultiBinary(int(n) if np.ndim(n) == 0 else [int(x) for x in n])
    if "Dict" in kinds:
        children = space.spaces.items()
        return gs.Dict(
            {key: convert_space(x, env, f"{where}[{key!r}]") for key, x in children}
        )
    if "Tuple" in kinds:
        children = enumerate(space.spaces)
        return gs.Tuple(
            [convert_space(x, env, f"{where}[{index}]") for index, x in children]
        )
    place = f" at {where}" if where else ""
    raise UserError(
        f"space {type(space).__name__}{place} of the gym environment {env} is not "
        f"supported; use {spaces.SUPPORTED}"
    )


def _load() -> types.ModuleType:
    """Import gym without its notice of four lines."""
    if "gym" not in sys.modules:
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module("gym_notices.notices").notices.clear()
    return importlib.import_module("gym")


def _restore_numpy_names() -> None:
    """Give gym's imported modules the names that NumPy removed."""
    if hasattr(np, "float_"):
        return
    for name in _BROKEN_MODULES:
        module = sys.modules.get(name)
        if module is not None and vars(module).get("np") is np:
            module.np = types.ModuleType("numpy")
            vars(module.np).update(vars(np), **_REMOVED_NAMES)


def _layers(env: Any) -> list[Any]:
    """Return the wrappers from the outside in, then the environment."""
    layers, base = [env], _unwrapped(env)
    while layers[-1] is not base and "env" in vars(layers[-1]):
        layers.append(layers[-1].env)
    return layers


def _unwrapped(env: Any) -> Any:
    return getattr(env, "unwrapped", env)


def _parameters(function: Any) -> set[str]:
    """Return the names of parameters, and ``**`` if any keyword is accepted."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set()
    return {
        "**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else parameter.name
        for parameter in parameters
    }
