"""Kinds of pools by name, and the experience that a run gets from one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfagents_batch import config as configs
from tfagents_batch.distribute.experience import PoolExperience, check
from tfagents_batch.distribute.pool import Workers
from tfagents_batch.distribute.ray_pool import RayPool
from tfagents_batch.distribute.spark_pool import SparkPool
from tfagents_batch.distribute.worker import Job
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import UserError
from tfagents_batch.training.config import RunConfig

POOLS = {each.name: each for each in (RayPool, SparkPool)}


def as_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a run in which a pool is text and JSON, as in config.json.

    Args:
      options: options of ``train``; ``pool`` may be an object of settings.
    """
    pool = options.get("pool")
    if not isinstance(pool, tuple(POOLS.values())):
        return dict(options)
    if given := {"pool_workers", "pool_options"}.intersection(options):
        raise UserError(
            f"{sorted(given)[0]} and pool={type(pool).__name__}(...) are both given; "
            "pass the number of workers and further settings to the latter"
        )
    further = configs.to_dict(pool)
    workers = further.pop("workers")
    usual = configs.to_dict(type(pool)())
    changed = {name: x for name, x in further.items() if x != usual[name]}
    new = {"pool": pool.name, "pool_workers": workers, "pool_options": changed}
    return dict(options) | new


def start(pool: RayPool | SparkPool, job: Job) -> tuple[Workers, dict[str, Any]]:
    """Start the workers of a pool; return them, and the spec of one of them.

    Raises:
      UserError: if the engine cannot be used or has no room, or the job cannot be sent.
      EnvError: if environments cannot be created.
    """
    if isinstance(pool, RayPool):
        from tfagents_batch.distribute import ray_workers

        return ray_workers.start(pool, job)
    from tfagents_batch.distribute import spark_workers

    return spark_workers.start(pool, job)


def experience(
    config: RunConfig, recipe: EnvRecipe, network: Any, profile: bool
) -> PoolExperience | None:
    """Return the experience of a run from its pool; None if it has none.

    Raises:
      UserError: for settings that cannot be used together with it.
    """
    if config.pool == "none":
        for name in ("pool_workers", "pool_options"):
            if value := getattr(config, name):
                raise UserError(
                    f"{name} is {value}, but pool is none; choose --pool=ray or spark"
                )
        return None
    config = config.check()
    settings: dict[str, Any] = dict(config.pool_options)
    if config.pool_workers is not None:
        settings["workers"] = config.pool_workers
    pool = configs.replace(POOLS[config.pool](), settings, "pool.")
    if profile:
        raise UserError(
            "profile measures the parts of one process, but the run has a pool; leave "
            "one of them out"
        )
    check(pool, config, recipe)
    checked = pool.check(config.num_envs)
    return PoolExperience(checked, lambda job: start(checked, job), network)
