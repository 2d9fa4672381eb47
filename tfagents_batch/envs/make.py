"""``make_env``: a batch of environments from a name, a callable or a list of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium

from tfagents_batch.envs import registry
from tfagents_batch.envs.process_env import ProcessEnv
from tfagents_batch.errors import UserError


def make_env(
    env: str | Callable[..., gymnasium.Env] | gymnasium.Env | Sequence[Any],
    num_envs: int | None = None,
    num_workers: int | None = None,
    *,
    env_kwargs: dict[str, Any] | None = None,
    **options: Any,
) -> ProcessEnv:
    """Make a batch of environments that is stepped inside the TensorFlow graph.

    >>> with make_env("CartPole-v1", num_envs=4, num_workers=2) as env:
    ...     state, timestep = env.init(seed=1)
    ...     timestep.observation.shape
    TensorShape([4, 4])

    Args:
      env: a name (see ``envs.registry``), a function that makes one environment, a
        list of names and functions, one for each environment, or, for a batch of one
        in this process, a ``gymnasium.Env``.
      num_envs: B; by default the length of the list, else 1.
      num_workers: processes; 0 steps in this process, None takes one per core, at
        most one per environment.
      env_kwargs: arguments of every environment.
      **options: of ``ProcessEnv``.

    Raises:
      UserError: for a name or argument that cannot be used, before a worker starts.
      EnvError: if an environment cannot be made.
    """
    if isinstance(env, (list, tuple)):
        return ProcessEnv(_several(env, num_envs, env_kwargs), num_workers, **options)
    num_envs = 1 if num_envs is None else num_envs
    if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
        raise UserError(f"num_envs is {num_envs!r}; expected an integer, at least 1")
    make = registry.constructor(env, env_kwargs)
    if isinstance(env, gymnasium.Env):
        if num_envs > 1 or num_workers:
            raise UserError(
                f"env is one instance of {type(env).__name__}, which cannot be "
                f"{num_envs} environments in {num_workers or 0} worker processes; pass "
                f"what makes one, such as lambda: {type(env).__name__}(...)"
            )
        num_workers = 0
    return ProcessEnv([make] * num_envs, num_workers, **options)


def _several(
    envs: Sequence[Any], num_envs: int | None, env_kwargs: dict[str, Any] | None
) -> list[Callable[[], gymnasium.Env]]:
    if num_envs not in (None, len(envs)):
        raise UserError(
            f"env is a list of {len(envs)}, but num_envs is {num_envs}; leave "
            "num_envs out, or make them agree"
        )
    if not envs:
        raise UserError("env is an empty list; expected at least one environment")
    for index, env in enumerate(envs):
        if isinstance(env, gymnasium.Env):
            raise UserError(
                f"env[{index}] is an instance of {type(env).__name__}; pass a function "
                "that makes it"
            )
    return [registry.constructor(env, env_kwargs) for env in envs]
