"""Configs for playing a run's policy, in its training environment or another."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tfagents_batch.envs import make
from tfagents_batch.envs.registry import is_same
from tfagents_batch.errors import UserError
from tfagents_batch.training import evaluate
from tfagents_batch.training.run_config import IN_PROCESS, Config


def sized(env: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Add ``num_envs`` to options if the environments passed determine it.

    Args:
      env: as ``make_env`` takes it, or an Env.
      options: settings of a Config that the user passed.

    Raises:
      UserError: if a setting contradicts the environments.
    """
    size = make.size(env)
    if size is None:
        return options
    fixed = ("num_envs",)
    if make.is_made(env):
        fixed += ("num_workers", "envs_per_worker")
        fixed += ("env_kwargs", "env_options", "wrappers")
    for name in fixed:
        if name in options and (name != "num_envs" or options[name] != size):
            raise UserError(
                f"{name} cannot be chosen for environments that are passed as "
                f"{type(env).__name__}, {size} of them"
            )
    return options | {"num_envs": size}


def suited(config: Config, env: Any, own: bool) -> Config:
    """Adapt a run's config to an environment that differs from the training one.

    Args:
      config: config of the run.
      env: as ``make_env`` takes it, or an ``Env``.
      own: whether the run's ``env_kwargs`` and wrappers apply to it too. If it is a
        name, they apply if that is the name of the run's environment.

    Returns:
      The config without settings that do not apply: arguments of another environment,
      workers and their options if it has no workers, and wrappers of an instance if
      they are not meant for it.
    """
    changes: dict[str, Any] = {}
    if isinstance(env, str):
        own, changes["env"] = is_same(env, config.env), env
    kwargs = config.env_kwargs if own and not make.is_made(env) else {}
    changes["env_kwargs"] = kwargs
    if not _has_workers(env, kwargs):
        changes |= {"num_workers": None, "envs_per_worker": None}
        changes |= {"env_options": {}, "on_fault": "raise", "log_info": []}
    if make.is_made(env) and not own:
        changes["wrappers"] = []
    return dataclasses.replace(config, **changes)


def to_play(
    saved: Config, env: Any, env_kwargs: dict[str, Any] | None, wrappers: Any
) -> Config:
    """Turn a run's config into one for playing its agent.

    Args:
      saved: config of the run.
      env: environment to play; None uses the training environment.
      env_kwargs, wrappers: for that environment; None uses those of the run if they
        apply.
    """
    changes: dict[str, Any] = {"eval_every": 0, "overlap": False}
    changes |= {"on_fault": "raise", "stop_at_return": None, "log_video_every": 0}
    changes["update_every"] = None  # it would have to be a multiple of num_envs
    passed = {"env_kwargs": env_kwargs, "wrappers": wrappers}
    changes |= {name: value for name, value in passed.items() if value is not None}
    if env is not None:  # a function may be the training environment itself
        saved = suited(saved, env, own=True)
    return dataclasses.replace(saved, **changes)


def in_process(config: Config, env: Any) -> Config:
    """Turn a config into one for a single environment or batch without workers."""
    options = config.env_options.items()
    return dataclasses.replace(
        config,
        num_envs=make.size(env) or 1,
        num_workers=0 if _has_workers(env, config.env_kwargs) else None,
        envs_per_worker=None,
        env_options={name: value for name, value in options if name in IN_PROCESS},
    )


def evaluation_size(env: Any, episodes: int, most: int) -> tuple[int, int]:
    """Return the numbers of environments and of episodes of an evaluation.

    Args:
      env: evaluation environment, as ``make_env`` takes it or an Env.
      episodes: requested number.
      most: maximum number of environments, if their number can be chosen.

    Returns:
      The number of environments and the number of episodes. Every environment plays
      equally many. If ``env`` fixes the number of environments, the number of episodes
      is rounded up to a multiple of it.
    """
    given = make.size(env)
    alike = isinstance(env, (list, tuple)) and all(x == env[0] for x in env)
    if given is None or alike:  # fewer environments are then enough
        return evaluate.batch_size(episodes, min(most, given or most)), episodes
    return given, math.ceil(episodes / max(given, 1)) * given


def _has_workers(env: Any, env_kwargs: dict[str, Any]) -> bool:
    """Return whether environments are created one by one, maybe in workers."""
    whole = make.is_made(env) or make.is_batch(env)
    return not whole and make.tensor_env(env, env_kwargs) is None
