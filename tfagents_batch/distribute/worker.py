"""A worker of a pool: environments and a policy, in a process anywhere."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import seeds, spaces
from tfagents_batch.devices import placement
from tfagents_batch.devices.placement import HOST
from tfagents_batch.distribute import wire
from tfagents_batch.distribute.wire import Order, Piece
from tfagents_batch.envs.graph.function import function
from tfagents_batch.envs.recipe import EnvRecipe
from tfagents_batch.graph import arrays
from tfagents_batch.graph.function import single_call
from tfagents_batch.programs import program
from tfagents_batch.sources.episodes import Episodes
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training import own_algorithm, threads
from tfagents_batch.training.assembly import create_algorithm, env_counters, env_events
from tfagents_batch.training.config import RunConfig
from tfagents_batch.types import EnvSpec


class Job(NamedTuple):
    """Work of every worker of a run; it can be pickled by cloudpickle."""

    recipe: EnvRecipe
    # Config of the run, with the number of environments of one worker
    config: RunConfig
    algorithm: type  # class of the algorithm
    network: Any  # the user's network or its builder, or None
    length: int  # steps of a rollout
    # Whole episodes of a rollout instead of ``length`` steps, or None
    episodes: int | None


class RolloutWorker:
    """Environments and a policy that collect rollouts on request.

    Rollouts of a fixed length continue where the one before ended. Whole episodes
    depend on nothing but the order and the weights. TensorFlow gets ``cores`` threads.
    """

    def __init__(self, job: Job, cores: int = 1):
        placement.claim(HOST)
        threads.apply(cores)
        self._job, self._program = job, None
        config, size = job.config, job.config.num_envs
        self._env = env = job.recipe.make(size, **config.make_options(size))
        own_algorithm.register(config.algorithm, job.algorithm)
        with job.recipe.closing_on_error(env):
            self._algorithm = create_algorithm(config, env.spec, job.network)

    def facts(self) -> dict[str, Any]:
        """Return the spec of its environments as JSON."""
        spec = self._env.spec
        return {
            "num_envs": spec.num_envs,
            "observation_space": spaces.to_json(spec.observation_space),
            "action_space": spaces.to_json(spec.action_space),
            "info": spec.info,
            "max_episode_steps": spec.max_episode_steps,
        }

    def collect(self, order: Order, weights: Mapping[str, Any] | None) -> Piece:
        """Collect a rollout; without ``weights``, by those of the order before."""
        if weights is not None:
            wire.assign(self._algorithm.policy, weights)
        first = self._program is None
        if self._program is None:
            self._program = self._start(order.start)
        begin = time.perf_counter()
        seed, step = arrays.argument(order.seed), order.step
        trajectory = self._program(seed, arrays.argument(step, tf.int64))
        packed, seconds = wire.pack(trajectory), time.perf_counter() - begin
        counters = env_counters([self._env])
        events = env_events([self._env])
        return Piece(order, first, packed, seconds, counters, events)

    def close(self) -> None:
        """Close the environments."""
        self._env.close()

    def _start(self, seed: int) -> Callable:
        """Start the environments; return the program that collects."""
        job, env, algorithm = self._job, self._env, self._algorithm
        if job.episodes is None:
            source: Any = Rollout(env, algorithm.policy, job.length, seed)
        else:
            source = Episodes(env, algorithm.policy, job.episodes)

        def collect(seed, step):
            return source.collect(seed, step).trajectory

        def make(mode: str) -> Callable:
            compiled = mode == "full"
            body = single_call(collect) if compiled else collect
            return function(body, envs=(env,), jit_compile=compiled, autograph=False)

        parts = source.compilable, algorithm.compilable
        return program.Compiled(make, program.plan(*parts, job.config.compile))


def of_worker(config: RunConfig, recipe: EnvRecipe, num_envs: int) -> RunConfig:
    """Return the config of one worker: one process for its environments, if any."""
    own = dataclasses.replace(config, num_envs=num_envs)
    if recipe.has_workers and config.num_workers is None:
        own = dataclasses.replace(own, num_workers=1, envs_per_worker=None)
    return own


def start_seed(seed: int, index: int) -> int:
    """Return the seed of a worker's environments; worker 0 has ``seed`` itself."""
    return seeds.iteration_seed(seed, index, "pool") if index else seed


def replaced_seed(seed: int, count: int) -> int:
    """Return the seed after a worker was replaced ``count`` times: other episodes."""
    return seeds.iteration_seed(seed, count, "pool/replaced")


def to_spec(facts: Mapping[str, Any], num_envs: int) -> EnvSpec:
    """Return the spec of all environments of a pool from those of one worker."""
    return EnvSpec(
        num_envs,
        spaces.from_json(facts["observation_space"]),
        spaces.from_json(facts["action_space"]),
        dict(facts["info"]),
        facts["max_episode_steps"],
    )
