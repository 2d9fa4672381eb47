"""Experience from a pool: workers elsewhere collect what the source would."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from tfagents_batch.distribute.pool import Plan, Pool, RemoteEnvs
from tfagents_batch.distribute.storing import StoringPool, open_replay
from tfagents_batch.distribute.worker import Job, of_worker, to_spec
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.placement import HOST, Placement
from tfagents_batch.sources import episodes
from tfagents_batch.sources.off_policy import ReplaySettings
from tfagents_batch.sources.on_policy import RolloutSettings
from tfagents_batch.sources.queue import QueueSettings
from tfagents_batch.training import own_algorithm
from tfagents_batch.training.config import RunConfig
from tfagents_batch.types import EnvSpec

# Settings of predictors that mean something for workers elsewhere, too.
_OF_QUEUE = "length", "train_batch"


class PoolExperience:
    """Experience of a run whose environments are in a pool.

    It takes the place of the config's source and has its settings.

    Args:
      pool: settings of the pool, checked.
      start: starts its workers for a job, see ``pools.start``.
      network: the user's network or its builder, or None.
    """

    program = "host"

    def __init__(self, pool: Any, start: Callable[[Job], tuple], network: Any):
        self._pool, self._start, self._network = pool, start, network

    def environments(
        self, recipe: EnvRecipe, run: RunConfig
    ) -> tuple[tuple[RemoteEnvs, ...], EnvSpec]:
        """Start the workers; return their environments as one."""
        own = of_worker(run, recipe, run.num_envs // self._pool.parts)
        source, length, whole = run.source, 0, None
        if isinstance(source, ReplaySettings):
            length = source.steps
        elif getattr(source, "episodes", None) is None:
            length = source.length
        else:
            whole = source.episodes // self._pool.parts
        kind = own_algorithm.entry(run.algorithm).kind
        job = Job(recipe, own, kind, self._network, length, whole)
        workers, facts = self._start(job)
        try:
            spec = to_spec(facts, run.num_envs)
            if whole is not None:
                episodes.longest(spec)
        except BaseException:
            workers.close()
            raise
        return (RemoteEnvs(workers, spec),), spec

    def open(
        self,
        envs: tuple[RemoteEnvs, ...],
        algorithm: Algorithm,
        seed: int,
        run: RunConfig,
        placement: Placement = HOST,
    ) -> Pool | StoringPool:
        """Return the source, see ``interfaces.Experience``."""
        source, (remote,) = run.source, envs
        plan = _plan(source, run, self._pool.parts, remote.spec)
        pool = Pool(remote, algorithm, plan, seed, run.log_info)
        if not isinstance(source, ReplaySettings):
            return pool
        wanted = algorithm.config.accepts()[source.kind]
        return open_replay(pool, source, wanted, placement)


def _plan(source: Any, run: RunConfig, parts: int, spec: EnvSpec) -> Plan:
    streams = run.num_envs // parts
    if isinstance(source, ReplaySettings):
        return Plan("ahead", parts, source.steps, streams, marks=True)
    if isinstance(source, QueueSettings):
        needed = math.ceil(source.train_batch / (source.length * streams))
        return Plan("free", needed, source.length, streams)
    order = "ahead" if run.overlap else "in turn"
    if source.episodes is None:
        return Plan(order, parts, source.length, streams)
    return Plan(order, parts, episodes.longest(spec), source.episodes // parts)


def check(pool: Any, config: RunConfig, recipe: EnvRecipe) -> None:
    """Refuse what cannot be collected by a pool.

    Args:
      pool: settings of the pool.
      config: checked config of the run.
      recipe: the environments.

    Raises:
      UserError: for the environments, or a setting of the source.
    """
    source = config.source
    if not isinstance(source, (RolloutSettings, ReplaySettings, QueueSettings)):
        raise UserError(
            f"pool is {pool.name}, but the run learns from {source.name}; a pool "
            "collects in environments: leave --pool out"
        )
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
    if isinstance(source, RolloutSettings) and source.wait_for is not None:
        raise UserError(
            f"rollout.wait_for is {source.wait_for}, but workers of a pool step all "
            "their environments; leave it out"
        )
    if isinstance(source, QueueSettings):
        for field in dataclasses.fields(source):
            value = getattr(source, field.name)
            if field.name not in _OF_QUEUE and value != field.default:
                raise UserError(
                    f"queue.{field.name} is {value}, but it is for predictors in this "
                    "process; leave it out, or --pool"
                )
    whole = isinstance(source, RolloutSettings) and source.episodes is not None
    if pool.episodes_only and not whole:
        raise UserError(
            f"pool is {pool.name}, whose workers play whole episodes only; set "
            "--rollout.episodes, or use --pool=ray"
        )
