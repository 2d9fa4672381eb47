"""A ``gymnasium.vector.VectorEnv`` as a batch that a ``VectorPool`` can step."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from tfagents_batch.envs import failures, stepper, validation
from tfagents_batch.envs.vector import autoreset
from tfagents_batch.envs.vector.autoreset import Stepped
from tfagents_batch.errors import UserError

_CLOSE_SECONDS = 2.0
_driven: weakref.WeakSet[Any] = weakref.WeakSet()


class GymnasiumBatch:
    """Seeds, steps and closes one vector environment.

    Environment i is seeded by ``stepper.env_seed(seed, i)`` where the vector
    environment takes a seed per row, as Sync- and AsyncVectorEnv do. One that takes
    a single number is seeded by ``env_seed(seed, 0)``; then a row depends on the size
    of the batch too.

    Args:
      env: the vector environment; it is closed here, too.
      autoreset_mode: of it, if its metadata do not say.

    Attributes:
      num_envs: B.
      observation_space, action_space: of one environment.
      max_episode_steps: its time limit, None if unknown.
      mode: how it restarts.

    Raises:
      UserError: if it cannot be driven.
    """

    def __init__(
        self, env: VectorEnv, autoreset_mode: AutoresetMode | str | None = None
    ):
        _check(env)
        self.mode = autoreset.mode_of(env, autoreset_mode)
        self.num_envs = int(env.num_envs)
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self.max_episode_steps = _time_limit(env)
        self._env = env
        self._step = autoreset.STEPS[self.mode]
        own = isinstance(env.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
        self._seed_per_row: bool | None = True if own else None  # None: to be tried
        _driven.add(env.unwrapped)

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        """Start every environment; the batched observation and infos."""
        result = self._reset(seed)
        validation.reset_result(result)
        return result

    def step(self, action: Any, over: np.ndarray) -> Stepped:
        """Step; see ``autoreset``."""
        return self._step(self._env, action, over)

    def close(self, failed: bool) -> None:
        """End it.

        Args:
          failed: whether it may not answer any more.
        """
        env, self._env = self._env, None  # which frees what it does not close
        _driven.discard(env.unwrapped)
        if not isinstance(env.unwrapped, AsyncVectorEnv):
            env.close()
            return
        dead = not all(process.is_alive() for process in env.unwrapped.processes)
        if failed or dead:  # who closes politely would wait for ever
            env.close(terminate=True)
        else:
            env.close(timeout=_CLOSE_SECONDS)

    def _reset(self, seed: int) -> Any:
        if self._seed_per_row is not False:
            seeds = [stepper.env_seed(seed, row) for row in range(self.num_envs)]
            try:
                result = self._env.reset(seed=seeds)
            except (TypeError, ValueError, gymnasium.error.Error):
                if self._seed_per_row:
                    raise
            else:
                self._seed_per_row = True
                return result
        result = self._env.reset(seed=stepper.env_seed(seed, 0))
        self._seed_per_row = False
        return result


def make(
    env: VectorEnv | Callable[[], VectorEnv],
    autoreset_mode: AutoresetMode | str | None = None,
) -> GymnasiumBatch:
    """A batch from a vector environment or a function that makes one.

    Raises:
      EnvError: if the function raises.
      UserError: if it is not, or does not return, a vector environment.
    """
    if not isinstance(env, VectorEnv):
        if not callable(env):
            raise UserError(
                f"env is of type {type(env).__name__}; expected a "
                "gymnasium.vector.VectorEnv or a function without arguments that makes "
                "one"
            )
        env = _construct(env)
    return GymnasiumBatch(env, autoreset_mode)


def _construct(constructor: Callable[[], VectorEnv]) -> VectorEnv:
    try:
        env = constructor()
    except Exception as error:
        described = failures.describe(error)
        failure = failures.Failure(
            failures.ERROR, phase="construct", cause=error, **described
        )
        raise failures.to_exception(failure, None) from error
    if isinstance(env, VectorEnv):
        return env
    raise UserError(
        f"the constructor returned {type(env).__name__}; expected a "
        "gymnasium.vector.VectorEnv, such as gymnasium.make_vec returns (single "
        "environments are for make_env)"
    )


def _check(env: VectorEnv) -> None:
    if any(each.__module__.startswith("envpool.") for each in type(env).__mro__):
        raise UserError(
            "an EnvPool object cannot be seeded again; pass its name, such as "
            "make_env('envpool:CartPole-v1', num_envs=8)"
        )
    if env.unwrapped in _driven:
        raise UserError(
            f"this {type(env.unwrapped).__name__} is stepped by another environment "
            "already; make one for each, for example one for training and one for "
            "evaluation"
        )


def _time_limit(env: VectorEnv) -> int | None:
    """Of the vector environment's registration, or its first environment's own."""
    limit = getattr(getattr(env.unwrapped, "spec", None), "max_episode_steps", None)
    first = next(iter(getattr(env.unwrapped, "envs", ())), None)
    if limit is None and first is not None:
        limit = stepper.inspect(first)["max_episode_steps"]
    return None if limit is None else int(limit)
