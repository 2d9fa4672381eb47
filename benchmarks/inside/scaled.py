"""Speed and memory of PPO with a given number of environments, in a new process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from benchmarks.inside import hooked, memory, session
from benchmarks.work.works import versions


@dataclasses.dataclass(frozen=True)
class Scaled:
    """PPO to measure."""

    num_envs: int  # B
    train: bool = True  # train with updates; else the policy only acts
    env: str = "CartPole-v1"
    rollout_length: int = 128  # T
    epochs: int = 4  # passes over the T * B transitions
    minibatches: int = 4  # of a pass
    seconds: float = 5.0  # to measure after the first iteration
    num_workers: int | None = None  # processes; None: one per core


def measure(work: Scaled) -> dict[str, Any]:
    """Measure env steps/s, seconds per iteration, and the memory at the end."""
    from tfagents_batch.algorithms import ppo
    from tfagents_batch.sources import on_policy
    from tfagents_batch.training.config import RunConfig
    from tfagents_batch.training.experiment import Experiment

    rows = work.rollout_length * work.num_envs // work.minibatches
    config = RunConfig(
        env=work.env,
        num_envs=work.num_envs,
        num_workers=work.num_workers,
        source=on_policy.RolloutSettings(length=work.rollout_length),
        eval_every=0,
        compile_cache=False,  # a cache would change the time of first iterations
        settings=ppo.Config(epochs=work.epochs, minibatch_size=rows),
    )
    with Experiment(config, config.recipe()) as experiment:
        experiment.start(0)
        counts: list[int] = []
        block = (_training if work.train else _acting)(experiment)

        def counted() -> int:
            counts.append(block())
            return counts[-1]

        first = session.repeat(counted, 0.0, 1)
        steady = session.repeat(counted, work.seconds)
        done = len(counts) - 1
        return {
            "env_steps_per_second": steady.rate,
            "iteration_seconds": steady.seconds / done,
            "iterations": done,
            "first_iteration_seconds": first.seconds,
            **memory.resident(),
            "route": getattr(experiment.envs[0], "backend", "in the graph"),
            "versions": versions("tensorflow", "keras", "gymnasium", "numpy"),
        }


def _training(experiment: Any) -> Callable[[], int]:
    """Return a function that runs an iteration and returns its transitions."""
    program = experiment.program

    def block() -> int:
        before = program.step
        program(2**62, rounds=1)
        return program.step - before

    return block


def _acting(experiment: Any) -> Callable[[], int]:
    """Return a function that only collects, and returns the transitions."""
    import tensorflow as tf

    from tfagents_batch.envs.graph.function import function

    source = experiment.source

    @function(envs=experiment.envs, jit_compile=source.compilable, autograph=False)
    def collect(seed):
        # Return all of it, because XLA drops unused results.
        return source.collect(seed, tf.constant(0, tf.int64))

    seeds = iter(range(2**31))
    return lambda: int(collect(tf.constant(next(seeds), tf.int32)).steps)


if __name__ == "__main__":
    session.figures(hooked.load, measure, Scaled)
