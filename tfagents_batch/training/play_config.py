"""Where a run's policy is played: in what it is trained on, or somewhere else."""

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
    """Add the number of environments that are given one by one, or made already.

    Args:
      env: as ``make_env`` takes it, or an Env.
      options: settings of a Config that were asked for.

    Raises:
      UserError: for a setting that such environments leave no choice in.
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
    """Adapt a run's config to another environment than the one that is trained on.

    Args:
      config: of the run.
      env: as ``make_env`` takes it, or an ``Env``.
      own: whether the run's ``env_kwargs`` and wrappers are meant for it too, if it is
        not a name; for one they are if it is that of the run.

    Returns:
      It without what would not concern that environment: arguments of another one,
      workers and their options where there are none, and, of what is made already,
      wrappers that are not meant for it.
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
      saved: of the run.
      env: to play instead; None for what the run was trained on.
      env_kwargs, wrappers: of that; None for those of the run where they fit.
    """
    changes: dict[str, Any] = {"eval_every": 0, "overlap": False}
    changes |= {"on_fault": "raise", "stop_at_return": None, "log_video_every": 0}
    changes["update_every"] = None  # which num_envs divides
    again = {"env_kwargs": env_kwargs, "wrappers": wrappers}
    changes |= {name: value for name, value in again.items() if value is not None}
    if env is not None:  # a function may be what the run was trained on
        saved = suited(saved, env, own=True)
    return dataclasses.replace(saved, **changes)


def in_process(config: Config, env: Any) -> Config:
    """Turn a config into one of a single environment, or batch, without workers."""
    options = config.env_options.items()
    return dataclasses.replace(
        config,
        num_envs=make.size(env) or 1,
        num_workers=0 if _has_workers(env, config.env_kwargs) else None,
        envs_per_worker=None,
        env_options={name: value for name, value in options if name in IN_PROCESS},
    )


def evaluation_size(env: Any, episodes: int, most: int) -> tuple[int, int]:
    """How many environments play an evaluation, each as often, and episodes in all.

    Args:
      env: what is played, as ``make_env`` takes it or an Env.
      episodes: that were asked for.
      most: environments, where as many can be made as wanted.

    Returns:
      The number of environments and the number of episodes, which is greater than what
      was asked for where every one of a given number of environments has to be played.
    """
    given = make.size(env)
    alike = isinstance(env, (list, tuple)) and all(x == env[0] for x in env)
    if given is None or alike:  # then some stand for all
        return evaluate.batch_size(episodes, min(most, given or most)), episodes
    return given, math.ceil(episodes / max(given, 1)) * given


def _has_workers(env: Any, env_kwargs: dict[str, Any]) -> bool:
    """Whether each environment is made on its own, in a worker or in this process."""
    whole = make.is_made(env) or make.is_batch(env)
    return not whole and make.tensor_env(env, env_kwargs) is None
