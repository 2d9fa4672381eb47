"""EnvPool's environments, written in C++ and stepped as a batch by threads of its own.

    make_env("envpool:Pong-v5", num_envs=8)

Its threads run in this process, so a crash of EnvPool ends it. An environment that
finished restarts on the next step, with its action ignored and reward 0. EnvPool takes
its seeds when it is made: ``init`` makes another pool.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs.shared import cpus, validation
from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.shared.observation_rules import flat as flatten
from tfagents_batch.envs.vector import autoreset
from tfagents_batch.envs.vector.autoreset import Stepped
from tfagents_batch.envs.worker import stepper
from tfagents_batch.errors import UserError
from tfagents_batch.suggest import closest

PREFIX = "envpool:"
# What is not the environment's own, and who decides it.
_OURS = {
    **{"num_envs": "num_envs", "batch_size": "num_envs", "num_threads": "num_workers"},
    **{"seed": "the seed of init", "env_seed": "the seed of init"},
    "gym_reset_return_info": "this library",
}


class EnvPoolBatch:
    """One EnvPool, as a ``Steppable``.

    Environment i depends on ``(seed, i)`` only, whatever the number of threads.
    Images that EnvPool gives channels first, uint8 ``[C, H, W]``, are given channels
    last, ``[H, W, C]``.

    Args:
      name: with or without the prefix, such as ``envpool:Pong-v5``.
      num_envs: B.
      num_threads: of EnvPool; None for one per core that this process may use, and 0
        for one. At most one per environment is used.
      env_kwargs: of the environment, such as ``{"episodic_life": True}``.

    Attributes:
      num_threads: in use.
      info_keys: columns worth having: ``lives`` where there are some.

    Raises:
      UserError: for a name or argument that cannot be used; without EnvPool, too.
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
        self._make, spec = _recipe(name.removeprefix(PREFIX), name, kwargs)
        self._kwargs = kwargs
        with warnings.catch_warnings():  # of bounds that are rounded to float32
            warnings.simplefilter("ignore")
            space = spec.gymnasium_observation_space
            self.action_space = spec.gymnasium_action_space
        self._space = space
        self.observation_space = _channels_last(space)
        self._images = [
            np.zeros((num_envs, *last.shape), np.uint8) if last != first else None
            for first, last in zip(
                spaces.leaves(space), spaces.leaves(self.observation_space), strict=True
            )
        ]
        limit = getattr(spec.config, "max_episode_steps", 0)
        self.max_episode_steps = int(limit) if limit > 0 else None
        columns = spec.state_array_spec
        self.info_keys = {"lives": "int32"} if "info:lives" in columns else {}
        self._has_raw_reward = "info:reward" in columns
        self._order = np.arange(num_envs)
        self._pool: Any = None

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        """Make a pool with other seeds and start it."""
        self._pool = None  # its threads end before others begin
        seeds = [stepper.env_seed(seed, row) for row in range(self.num_envs)]
        self._pool = self._make(
            num_envs=self.num_envs,
            num_threads=self.num_threads,
            seed=seeds,
            **self._kwargs,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _ = self._pool.observation_space  # which it makes once
        result = self._pool.reset()
        validation.reset_result(result)
        observation, info = result
        self._check_order(info)
        flat = flatten(self._space, observation)
        return spaces.pack(self.observation_space, self._turned(flat)), info

    def step(self, action: Any, over: np.ndarray) -> Stepped:
        """Step; rows that are over restart."""
        stepped = autoreset.next_step(self._pool, action, over)
        self._check_order(stepped.info)
        raw = None
        if self._has_raw_reward:  # of Atari, before reward_clip
            raw = np.asarray(stepped.info["reward"], np.float64)
        observation = self._turned(stepped.observation)
        return stepped._replace(observation=observation, raw_reward=raw)

    def close(self, failed: bool = False) -> None:
        """End its threads."""
        self._pool = None

    def _check_order(self, info: dict[str, Any]) -> None:
        if not np.array_equal(info["env_id"], self._order):
            raise Defect(f"EnvPool answered for environments {info['env_id'].tolist()}")

    def _turned(self, flat: list[Any]) -> list[Any]:
        """Images channels last, in buffers that the next step uses again."""
        turned = []
        for value, buffer in zip(flat, self._images, strict=True):
            if buffer is not None:
                for channel in range(buffer.shape[-1]):  # faster than one transposition
                    buffer[..., channel] = value[:, channel]
                value = buffer
            turned.append(value)
        return turned


def _recipe(id: str, name: str, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """A function that makes pools of an id, and their EnvSpec; no pool is made."""
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
        hint = f"did you mean {PREFIX + close!r}?" if close else "see EnvPool's list"
        raise UserError(f"environment {name!r} does not exist; {hint}")
    for key in kwargs:
        if key in _OURS:
            raise UserError(
                f"env_kwargs has {key!r}, which {_OURS[key]} decides; leave it out"
            )
    try:
        fields = envpool.make_spec(id).config._fields
    except Exception as error:  # such as a library that is not installed
        raise UserError(f"EnvPool cannot make {name!r}: {_line(error)}") from error
    own = [field for field in fields if field not in _OURS]
    for key in kwargs:
        if key not in fields and not key.startswith(("render_", "from_pixels")):
            close = closest(key, own)
            hint = f"did you mean {close!r}?" if close else f"it has {', '.join(own)}"
            raise UserError(f"environment {name!r} takes no {key!r}; {hint}")
    try:
        spec = envpool.make_spec(id, **kwargs)
    except Exception as error:
        raise UserError(f"env_kwargs {kwargs} do not fit: {_line(error)}") from error
    players = getattr(spec.config, "max_num_players", 1)
    if players != 1:
        raise UserError(
            f"environment {name!r} has {players} players; only those with one player "
            "can be learned from"
        )
    return lambda **more: envpool.make_gymnasium(id, **more), spec


def _channels_last(space: gymnasium.Space) -> gymnasium.Space:
    """The space with its images turned."""
    if isinstance(space, gs.Dict):
        return gs.Dict({key: _channels_last(x) for key, x in space.spaces.items()})
    if not isinstance(space, gs.Box) or space.dtype != np.uint8:
        return space
    if len(space.shape) != 3 or space.shape[0] >= min(space.shape[1:]):
        return space
    low, high = np.moveaxis(space.low, 0, -1), np.moveaxis(space.high, 0, -1)
    return gs.Box(low, high, dtype=np.uint8)


def _line(error: BaseException) -> str:
    """The beginning of an error's text, which may go on for pages."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
