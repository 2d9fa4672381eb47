"""EnvPool's environments: written in C++, stepped as a batch by its own threads.

    make_env("envpool:Pong-v5", num_envs=8)

Its threads run in this process, so a crash of EnvPool ends this process. A finished
environment restarts on the next step, which ignores its action and has reward 0.
EnvPool takes seeds only in its constructor, so ``init`` creates another pool.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs.shared import cpus
from tfagents_batch.envs.worker import construction
from tfagents_batch.errors import UserError, first_line
from tfagents_batch.settings.suggest import closest, hint

PREFIX = "envpool:"
# Arguments of EnvPool that env_kwargs may not set, and what sets them instead.
_RESERVED = {
    **{"num_envs": "num_envs", "batch_size": "num_envs", "num_threads": "num_workers"},
    **{"seed": "the seed of init", "env_seed": "the seed of init"},
    "gym_reset_return_info": "this library",
}


class EnvPoolBatch:
    """Adapter of one EnvPool to ``Steppable``.

    Environment i depends on ``(seed, i)`` only, not on the number of threads. Images,
    uint8 ``[C, H, W]``, become ``[H, W, C]``.

    Args:
      name: id with or without the prefix, such as ``envpool:Pong-v5``.
      num_envs: B.
      num_threads: number of EnvPool's threads; None uses one per core available to this
        process, 0 uses one. At most one per environment is used.
      env_kwargs: arguments of the environment, such as ``{"episodic_life": True}``.

    Raises:
      UserError: for an unusable name or argument, or if EnvPool is not installed.
    """

    def __init__(
        self,
        name: str,
        num_envs: int = 1,
        num_threads: int | None = None,
        env_kwargs: dict[str, Any] | None = None,
    ):
        self.num_envs = num_envs
        cores = len(cpus.available()) if num_threads is None else max(num_threads, 1)
        self.num_threads = min(cores, num_envs)
        kwargs = dict(env_kwargs or {})
        self._make, spec = _find(name.removeprefix(PREFIX), name, kwargs)
        self._kwargs = kwargs
        with warnings.catch_warnings():  # EnvPool rounds bounds to float32
            warnings.simplefilter("ignore")
            space = spec.gymnasium_observation_space
            self.action_space = spec.gymnasium_action_space
        self._space = space
        self.observation_space = _channels_last(space)
        leaves = spaces.leaves(space), spaces.leaves(self.observation_space)
        self._images = {
            index: np.zeros((num_envs, *last.shape), np.uint8)
            for index, (first, last) in enumerate(zip(*leaves, strict=True))
            if last != first
        }
        limit = getattr(spec.config, "max_episode_steps", 0)
        self.max_episode_steps = int(limit) if limit > 0 else None
        columns = spec.state_array_spec
        # Default info columns, if the environment has lives.
        self.info_keys = {"lives": "int32"} if "info:lives" in columns else {}
        # Atari only: the reward before reward_clip.
        self.raw_reward = "reward" if "info:reward" in columns else None
        self._pool: Any = None

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        """Create a pool with new seeds and start it."""
        self._pool = None  # end its threads before new ones start
        seeds = [construction.env_seed(seed, row) for row in range(self.num_envs)]
        self._pool = self._make(
            num_envs=self.num_envs,
            num_threads=self.num_threads,
            seed=seeds,
            **self._kwargs,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _ = self._pool.observation_space  # cached by EnvPool, warns once
        observation, info = self._pool.reset()
        return self._channels_last(observation), info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step or restart every row."""
        observation, *rest = self._pool.step(action)
        return self._channels_last(observation), *rest

    def close(self, failed: bool = False) -> None:
        """End the threads."""
        self._pool = None

    def _channels_last(self, observation: Any) -> Any:
        """Return images with channels last, in buffers that the next step reuses."""
        if not self._images:
            return observation
        flat = spaces.flatten(self._space, observation)
        for index, buffer in self._images.items():
            for channel in range(buffer.shape[-1]):  # faster than one transposition
                buffer[..., channel] = flat[index][:, channel]
            flat[index] = buffer
        return spaces.pack(self.observation_space, flat)


def _find(id: str, name: str, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Return a function that creates pools of this id, and their spec."""
    try:
        envpool = importlib.import_module("envpool")
    except ImportError as error:
        raise UserError(
            f"environment {name!r} needs EnvPool ({error}): "
            'pip install "tfagents_batch[envpool]"'
        ) from error
    known = envpool.list_all_envs()
    if id not in known:
        close = closest(id, known)
        fix = f"did you mean {PREFIX + close!r}?" if close else "see EnvPool's list"
        raise UserError(f"environment {name!r} does not exist; {fix}")
    for key in kwargs:
        if key in _RESERVED:
            raise UserError(
                f"env_kwargs has {key!r}, which {_RESERVED[key]} sets; leave it out"
            )
    try:
        fields = envpool.make_spec(id).config._fields
    except Exception as error:  # for example, a library is not installed
        raise UserError(
            f"EnvPool cannot create {name!r}: {first_line(error)}"
        ) from error
    accepted = [field for field in fields if field not in _RESERVED]
    for key in kwargs:
        if key not in fields and not key.startswith(("render_", "from_pixels")):
            raise UserError(
                f"environment {name!r} takes no {key!r}; {hint(key, accepted)}"
            )
    try:
        spec = envpool.make_spec(id, **kwargs)
    except Exception as error:
        raise UserError(
            f"env_kwargs {kwargs} do not fit: {first_line(error)}"
        ) from error
    players = getattr(spec.config, "max_num_players", 1)
    if players != 1:
        raise UserError(
            f"environment {name!r} has {players} players; only environments with one "
            "player are supported"
        )
    return lambda **more: envpool.make_gymnasium(id, **more), spec


def _channels_last(space: gymnasium.Space) -> gymnasium.Space:
    """Return the space, with channels last for its images."""
    if isinstance(space, gs.Dict):
        return gs.Dict({key: _channels_last(x) for key, x in space.spaces.items()})
    if not isinstance(space, gs.Box) or space.dtype != np.uint8:
        return space
    if len(space.shape) != 3 or space.shape[0] >= min(space.shape[1:]):
        return space
    low, high = np.moveaxis(space.low, 0, -1), np.moveaxis(space.high, 0, -1)
    return gs.Box(low, high, dtype=np.uint8)
