"""Our workers on Ray, calls of an actor that does nothing, and empty jobs of Spark."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmarks.inside import session
from benchmarks.work.pooled import Pooled

SMALL, LARGE = 25_000, 12_500_000  # float32 values: 100 KB and 50 MB


def measure(work: Pooled) -> dict[str, float]:
    """Measure what the work names."""
    return {"rollouts": rollouts, "calls": calls, "jobs": jobs}[work.what](work)


def rollouts(work: Pooled) -> dict[str, float]:
    """Return environment steps per second; each rollout has new weights."""
    from tfagents_batch.algorithms import REGISTRY
    from tfagents_batch.distribute import pools
    from tfagents_batch.training.assembly import create_algorithm
    from tfagents_batch.training.config import RunConfig, with_options

    env = "benchmarks.work.environments:WaitingCartPole"
    options = {
        "pool": "ray",
        "pool_workers": work.workers,
        "num_envs": work.workers * work.envs,
        "rollout": {"length": work.length},
        "env_kwargs": {"milliseconds": work.milliseconds},
    }
    config = RunConfig(algorithm="ppo", settings=REGISTRY["ppo"][1](), env=env)
    config = with_options(config, options).check()
    recipe = config.recipe()
    experience = pools.experience(config, recipe, None, False)
    envs, spec = experience.environments(recipe, config)
    algorithm = create_algorithm(config, spec, None)
    source = experience.open(envs, algorithm, 0, config)

    def block() -> int:
        algorithm.policy.version.assign_add(1)
        source.publish(algorithm.policy)
        return source.fetch(0).steps

    try:
        session.repeat(block, 0, 2)
        return {"steps_per_s": session.repeat(block, work.seconds).rate}
    finally:
        source.close()


def calls(work: Pooled) -> dict[str, float]:
    """Return milliseconds of a call, and of weights that are published and taken."""
    from tfagents_batch.distribute import ray_session

    class Taker:
        def take(self, weights):
            for x in (weights or {}).values():
                x.copy()  # as assigning it does; until then it is shared memory

    found = {}
    with ray_session.session(None, work.workers) as ray:
        actor = ray.remote(Taker).remote()

        def take(weights):
            ray.get(actor.take.remote(weights))

        found["call"] = _milliseconds(lambda: take(None), 200)
        for name, size, count in (("100 KB", SMALL, 100), ("50 MB", LARGE, 10)):
            weights = {"kernel": np.ones(size, np.float32)}
            found[f"publish {name}"] = _milliseconds(
                lambda w=weights: ray.put(w), count
            )
            refs = [ray.put(weights) for _ in range(count + 1)]
            found[f"take {name}"] = _milliseconds(lambda r=refs: take(r.pop()), count)
    return found


def jobs(work: Pooled) -> dict[str, float]:
    """Return milliseconds of a Spark job with nothing to do, and with 100 KB."""
    from tfagents_batch.offline.reading import session as spark_session

    with spark_session.started(f"local[{work.workers}]") as spark:
        context, count = spark.sparkContext, work.workers

        def job(sent=None):
            def look(_):
                yield sent and len(sent.value)

            context.parallelize(range(count), count).mapPartitions(look).collect()

        def with_weights():
            sent = context.broadcast({"kernel": np.ones(SMALL, np.float32)})
            job(sent)
            sent.destroy()

        empty = _milliseconds(job, 20)
        return {"job": empty, "job with 100 KB": _milliseconds(with_weights, 20)}


def _milliseconds(function: Callable[[], object], count: int) -> float:
    """Return the median time of a call, after a first one."""
    function()
    found = []
    for _ in range(count):
        start = time.perf_counter()
        function()
        found.append(1000 * (time.perf_counter() - start))
    return statistics.median(found)


if __name__ == "__main__":
    session.figures(measure)
