"""Experience from a pool: workers elsewhere collect what the source would."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfagents_batch import config as configs
from tfagents_batch.devices.placement import HOST, Placement
from tfagents_batch.distribute.pool import (
    REPLACED,
    RemoteEnvs,
    RemoteRollouts,
    RemoteWorkers,
)
from tfagents_batch.distribute.ray_pool import RayPool
from tfagents_batch.distribute.spark_pool import SparkPool
from tfagents_batch.distribute.worker import Job, of_worker, to_spec
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import EnvError, UserError
from tfagents_batch.experience import HasRemotePlan
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.sources import episodes
from tfagents_batch.sources.replay import Replay
from tfagents_batch.training import own_algorithm
from tfagents_batch.training.config import RunConfig
from tfagents_batch.types import VERSION, Collected, EnvSpec, Trajectory

POOLS = {kind.name: kind for kind in (RayPool, SparkPool)}


def as_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of ``train`` with a pool as text and JSON, as in config.json."""
    pool = options.get("pool")
    if not isinstance(pool, tuple(POOLS.values())):
        return dict(options)
    if both := {"pool_workers", "pool_options"}.intersection(options):
        raise UserError(
            f"{sorted(both)[0]} and pool={type(pool).__name__}(...) are both given; "
            "pass the number of workers and further settings to the latter"
        )
    further = configs.to_dict(pool)
    workers = further.pop("workers")
    usual = configs.to_dict(type(pool)())
    changed = {name: x for name, x in further.items() if x != usual[name]}
    new = {"pool": pool.name, "pool_workers": workers, "pool_options": changed}
    return dict(options) | new


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
    settings = dict(config.pool_options)
    if config.pool_workers is not None:
        settings["workers"] = config.pool_workers
    pool = configs.replace(POOLS[config.pool](), settings, "pool.")
    if profile:
        raise UserError(
            "profile measures the parts of one process, but the run has a pool; leave "
            "one of them out"
        )
    _check_recipe(recipe)
    pool = pool.check(config.num_envs)
    _check_source(pool, config)
    return PoolExperience(pool, network)


class PoolExperience:
    """Experience of a run whose environments are in a pool.

    It takes the place of the config's source and has its settings.
    """

    program = "host"

    def __init__(self, pool: Any, network: Any):
        self._pool, self._network = pool, network

    def environments(
        self, recipe: EnvRecipe, run: RunConfig
    ) -> tuple[tuple[RemoteEnvs, ...], EnvSpec]:
        """Start the workers; return their environments as one."""
        plan = run.source.remote_plan(run, self._pool.parts)
        own = of_worker(run, recipe, run.num_envs // self._pool.parts)
        kind = own_algorithm.entry(run.algorithm).kind
        whole = plan.streams if plan.whole else None
        if plan.whole:
            _check_time_limit(recipe, own)
        job = Job(recipe, own, kind, self._network, plan.length, whole)
        workers, facts = start(self._pool, job)
        spec = to_spec(facts, run.num_envs)
        return (RemoteEnvs(workers, spec),), spec

    def open(
        self,
        envs: tuple[RemoteEnvs, ...],
        algorithm: Algorithm,
        seed: int,
        run: RunConfig,
        placement: Placement = HOST,
    ) -> RemoteRollouts | StoringPool:
        """Return the source, see ``experience.Experience``."""
        source, (remote,) = run.source, envs
        plan = run.source.remote_plan(run, self._pool.parts)
        if plan.whole:
            plan = plan._replace(length=episodes.longest(remote.spec))
        pool = RemoteRollouts(remote, algorithm, plan, seed, run.log_info)
        if not plan.marks:
            return pool
        like = without_marks(pool.outline())
        with placement.updating():
            return StoringPool(pool, source.storage(pool, like, algorithm))


class StoringPool(tf.Module):
    """Host source that stores what it fetches, and is sampled like a replay.

    The plan of its pool ``marks`` workers that have just started.
    """

    def __init__(self, pool: RemoteRollouts, replay: Replay):
        super().__init__()
        self.pool, self.replay, self.config = pool, replay, replay.config
        self.envs, self.compilable = pool.envs, pool.compilable
        self.start, self.fetch, self.publish = pool.start, pool.fetch, pool.publish
        self.report, self.traces, self.close = pool.report, pool.traces, pool.close
        self.sample, self.feedback = replay.sample, replay.feedback
        self.named_variables = replay.named_variables
        self.check_numbers, self.interrupt = replay.check_numbers, replay.interrupt
        self.postpone = replay.postpone

    def store(self, collected: Collected, step) -> Collected:
        """Store a trajectory, see ``Replay.store``.

        If any worker was replaced, a break is marked in all streams, because the replay
        keeps one break mark for all.
        """
        trajectory = collected.trajectory
        replaced = trajectory.behavior[REPLACED]
        self.replay.interrupt(tf.reduce_any(replaced))
        return self.replay.store(
            collected._replace(trajectory=without_marks(trajectory)), step
        )

    def check(self) -> None:
        """Raise what has ended the pool, or what the replay cannot store."""
        self.pool.check()
        self.replay.check()


def without_marks(trajectory: Trajectory) -> Trajectory:
    """Return a trajectory as a replay stores it."""
    left = {
        name: x
        for name, x in trajectory.behavior.items()
        if name not in (REPLACED, VERSION)
    }
    return trajectory._replace(behavior=left)


def start(pool: Any, job: Job) -> tuple[RemoteWorkers, dict[str, Any]]:
    """Start the workers of a pool; return them, and the spec of one of them.

    Raises:
      UserError: if the engine cannot be used or has no room, or the job cannot be sent.
      EnvError: if environments cannot be created.
    """
    if pool.name == "ray":
        from tfagents_batch.distribute.ray_workers import start
    else:
        from tfagents_batch.distribute.spark_workers import start
    return start(pool, job)


def _check_recipe(recipe: EnvRecipe) -> None:
    """Refuse environments that the workers of a pool cannot create."""
    if recipe.exists:
        raise UserError(
            f"env is an instance of {type(recipe.env).__name__}, but the workers of a "
            "pool create their own; pass a name, or a function that creates one"
        )
    if isinstance(recipe.env, (list, tuple)):
        raise UserError(
            f"env is a list of {len(recipe.env)} environments, but all workers of a "
            "pool have the same; pass one name or function"
        )
    if recipe.has_workers:
        recipe.constructor()  # which looks the name up, long before a worker would


def _check_time_limit(recipe: EnvRecipe, own: RunConfig) -> None:
    """Refuse environments without a time limit; one of them is created here.

    An engine takes a minute to say the same.
    """
    try:
        env = recipe.make(1, **own.make_options(1))
    except EnvError:  # the workers may have what this machine lacks
        return
    with contextlib.closing(env):
        episodes.longest(env.spec)


def _check_source(pool: Any, config: RunConfig) -> None:
    """Refuse a source whose experience the workers of a pool cannot collect."""
    source = config.source
    if not isinstance(source, HasRemotePlan):
        raise UserError(
            f"pool is {pool.name}, but the run learns from {source.name}; a pool "
            "collects in environments: leave --pool out"
        )
    plan = source.remote_plan(config, pool.parts)
    if pool.episodes_only and not plan.whole:
        raise UserError(
            f"pool is {pool.name}, whose workers play whole episodes only; set "
            "--rollout.episodes, or use --pool=ray"
        )
