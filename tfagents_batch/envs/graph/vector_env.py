"""A ``gymnasium.vector.VectorEnv`` as an environment of this library."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector import VectorEnv as GymnasiumVectorEnv

from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.shared import arguments
from tfagents_batch.envs.shared.options import OFF, RAISE
from tfagents_batch.envs.vector.batch_stepper import Steppable
from tfagents_batch.envs.worker import construction
from tfagents_batch.errors import UserError

_CLOSE_SECONDS = 2.0
_in_use: weakref.WeakSet[Any] = weakref.WeakSet()


class GymnasiumBatch:
    """Adapter of a vector environment to ``Steppable``.

    Environment i is seeded by ``construction.env_seed(seed, i)`` if the vector
    environment takes a seed per row, as Sync- and AsyncVectorEnv do. If it takes only
    one number, it is seeded by ``env_seed(seed, 0)``; then the rows also depend on the
    size of the batch.

    Raises:
      UserError: if the vector environment cannot be used.
    """

    raw_reward: str | None = None

    def __init__(self, env: GymnasiumVectorEnv):
        _check(env)
        self.num_envs = int(env.num_envs)
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self.max_episode_steps = _time_limit(env)
        self._env: GymnasiumVectorEnv | None = env
        several = isinstance(env.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
        self._one_seed: bool | None = False if several else None  # None: unknown yet
        _in_use.add(env.unwrapped)

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        """Start every environment; return the batched observation and infos."""
        rows = range(self.num_envs)
        seeds: Any = [construction.env_seed(seed, row) for row in rows]
        env = self._open()
        try:
            result = env.reset(seed=seeds[0] if self._one_seed else seeds)
        except (TypeError, ValueError, gymnasium.error.Error):
            if self._one_seed is not None:
                raise
            self._one_seed = True
            result = env.reset(seed=seeds[0])
        self._one_seed = bool(self._one_seed)
        return result

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step or restart every row."""
        return self._open().step(action)

    def close(self, failed: bool = False) -> None:
        """Close it; with ``failed`` it may no longer respond. Idempotent."""
        env, self._env = self._env, None  # frees what its close() leaves open
        if env is None:
            return
        _in_use.discard(env.unwrapped)
        options: dict[str, Any] = {}
        if isinstance(env.unwrapped, AsyncVectorEnv):
            alive = all(process.is_alive() for process in env.unwrapped.processes)
            responsive = alive and not failed  # else close() would wait forever
            graceful = {"timeout": _CLOSE_SECONDS}
            options = graceful if responsive else {"terminate": True}
        env.close(**options)

    def _open(self) -> GymnasiumVectorEnv:
        assert self._env is not None, "closed"
        return self._env


def VectorEnv(
    env: GymnasiumVectorEnv | Steppable,
    *,
    on_fault: str = RAISE,
    finite_check: str = RAISE,
    info_keys: Mapping[str, str] | None = None,
) -> ProcessEnv:
    """Make an existing batch usable inside graphs.

    It is stepped in this process by ``tf.numpy_function`` ops, so it cannot run under
    ``jit_compile=True`` and has no deadlines, and its crash ends this process.
    Otherwise it behaves like environments that ``make_env`` creates one by one.

    Its autoreset mode must be NEXT_STEP, Gymnasium's default: a vector environment
    steps all of its rows or none, so SAME_STEP would lose the first transition of each
    episode, and DISABLED would waste a step.

    >>> import gymnasium
    >>> import tensorflow as tf
    >>> with VectorEnv(gymnasium.make_vec("CartPole-v1", 4)) as env:
    ...     state, timestep = env.init(seed=1)
    ...     state, timestep = env.step(state, tf.zeros([4], tf.int32))
    >>> timestep.observation.shape
    TensorShape([4, 4])

    Args:
      env: a vector environment, or another batch with the methods of
        ``batch_stepper.Steppable``. It is closed with the returned environment.
      on_fault: "raise", which fails the whole batch after a failure.
      finite_check: "raise" makes NaN and infinity in observations and rewards a
        failure; "off" accepts them.
      info_keys: ``{key: dtype}`` of info values to copy; float32, int32 or bool. A
        missing value is NaN, 0 or false.

    Raises:
      UserError: if it cannot be used, with the reason.
    """
    if isinstance(env, GymnasiumVectorEnv):
        env = GymnasiumBatch(env)
    elif not isinstance(env, Steppable):
        raise UserError(
            f"env is of type {type(env).__name__}; expected a gymnasium.vector."
            "VectorEnv, such as gymnasium.make_vec returns (single environments are "
            "for make_env)"
        )
    try:
        arguments.one_of("on_fault of an existing batch", on_fault, (RAISE,))
        arguments.one_of("finite_check", finite_check, (RAISE, OFF))
        return ProcessEnv(env, 0, finite_check=finite_check, info_keys=info_keys)
    except BaseException:
        env.close()
        raise


def _check(env: GymnasiumVectorEnv) -> None:
    if any(kind.__module__.startswith("envpool.") for kind in type(env).__mro__):
        raise UserError(
            "an EnvPool object cannot be seeded again; pass its name, such as "
            "make_env('envpool:CartPole-v1', num_envs=8)"
        )
    if env.unwrapped in _in_use:
        raise UserError(
            f"this {type(env.unwrapped).__name__} is already stepped by another "
            "environment; create one for each, such as one for training and one for "
            "evaluation"
        )
    mode = (env.metadata or {}).get("autoreset_mode")
    if mode not in (AutoresetMode.NEXT_STEP, AutoresetMode.NEXT_STEP.value):
        raise UserError(
            f"{type(env.unwrapped).__name__} has the autoreset mode {mode}; expected "
            "NEXT_STEP, Gymnasium's default, which loses no step: create it with "
            "autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP (in "
            "gymnasium.make_vec, as an entry of vector_kwargs); if it restarts ended "
            "rows on their next step, say so in its metadata"
        )


def _time_limit(env: GymnasiumVectorEnv) -> int | None:
    """Return the limit of the registration, else of the first environment."""
    limit = getattr(getattr(env.unwrapped, "spec", None), "max_episode_steps", None)
    first = next(iter(getattr(env.unwrapped, "envs", ())), None)
    if limit is None and first is not None:
        limit = construction.inspect(first)["max_episode_steps"]
    return None if limit is None else int(limit)
