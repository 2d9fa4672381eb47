"""Configs for playing a trained agent, in the run's or another environment."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tfagents_batch.envs import make
from tfagents_batch.envs.registry import is_same, whole_games
from tfagents_batch.errors import UserError
from tfagents_batch.training import evaluate
from tfagents_batch.training.run_flags import IN_PROCESS, Config


def with_num_envs(env: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Set ``num_envs`` if the user passes a list of environments or instances.

    Args:
      env: an argument of ``make_env``, or an Env.
      options: settings of a Config that the user gave.

    Raises:
      UserError: for an option that cannot be chosen for such environments.
    """
    size = make.size(env)
    if size is None:
        return options
    fixed = ("num_envs",)
    if make.is_existing(env):
        fixed += ("num_workers", "envs_per_worker")
        fixed += ("env_kwargs", "env_options", "wrappers")
    for name in fixed:
        if name in options and (name != "num_envs" or options[name] != size):
            raise UserError(
                f"{name} cannot be chosen: env is a {type(env).__name__} with "
                f"{size} environments; leave it out"
            )
    return options | {"num_envs": size}


def adapted(config: Config, env: Any, own: bool) -> Config:
    """Adapt a run's config to another environment.

    Args:
      config: config of the run.
      env: an argument of ``make_env``, or an ``Env``.
      own: whether the run's ``env_kwargs`` and wrappers apply to an environment that is
        not a name. They apply to a name if it is that of the run.

    Returns:
      The config without settings that do not apply: arguments of another environment,
      workers and their options if there are none, and wrappers of an instance.
    """
    changes: dict[str, Any] = {}
    if isinstance(env, str):
        own, changes["env"] = is_same(env, config.env), env
    kwargs = config.env_kwargs if own and not make.is_existing(env) else {}
    changes["env_kwargs"] = kwargs
    if not _has_workers(env, kwargs):
        changes |= {"num_workers": None, "envs_per_worker": None}
        changes |= {"env_options": {}, "on_fault": "raise", "log_info": []}
    if make.is_existing(env) and not own:
        changes["wrappers"] = []
    return dataclasses.replace(config, **changes)


def for_playing(
    saved: Config, env: Any, env_kwargs: dict[str, Any] | None, wrappers: Any
) -> Config:
    """Convert a run's config to a config for playing its agent.

    Args:
      saved: config of the run.
      env: environment to play; None means that of the run.
      env_kwargs, wrappers: its arguments and wrappers; None means those of the run if
        they apply, but with whole games as episodes.
    """
    changes: dict[str, Any] = {"eval_every": 0, "overlap": False}
    changes |= {"on_fault": "raise", "stop_at_return": None, "log_video_every": 0}
    # Not used, and may not fit another num_envs. An algorithm's own may not, either.
    changes["source"] = type(saved.source)()
    overrides = {"env_kwargs": env_kwargs, "wrappers": wrappers}
    changes |= {name: value for name, value in overrides.items() if value is not None}
    if env is not None:  # a function may create the run's own environment
        saved = adapted(saved, env, own=True)
    played = saved.env if env is None else env
    changes.setdefault("env_kwargs", whole_games(played, saved.env_kwargs))
    return dataclasses.replace(saved, **changes)


def in_process(config: Config, env: Any) -> Config:
    """Convert a config to one environment (or a batch) in this process."""
    options = config.env_options.items()
    return dataclasses.replace(
        config,
        num_envs=make.size(env) or 1,
        num_workers=0 if _has_workers(env, config.env_kwargs) else None,
        envs_per_worker=None,
        env_options={name: value for name, value in options if name in IN_PROCESS},
    )


def evaluation_size(env: Any, episodes: int, most: int) -> tuple[int, int]:
    """Return the number of environments and of episodes for an evaluation.

    Args:
      env: environment to play: an argument of ``make_env``, or an Env.
      episodes: requested number of episodes.
      most: largest number of environments, if their number can be chosen.

    Returns:
      The number of environments and the number of episodes. If the number of
      environments is fixed, the episodes are rounded up to a multiple of it.
    """
    given = make.size(env)
    same_everywhere = isinstance(env, (list, tuple)) and all(x == env[0] for x in env)
    if given is None or same_everywhere:  # fewer environments are enough
        return evaluate.batch_size(episodes, min(most, given or most)), episodes
    return given, math.ceil(episodes / max(given, 1)) * given


def _has_workers(env: Any, env_kwargs: dict[str, Any]) -> bool:
    """Return whether environments are created one by one, as workers require."""
    whole = make.is_existing(env) or make.is_batch(env)
    return not whole and make.tensor_env(env, env_kwargs) is None
