"""Speed and memory of PPO with a given number of environments, in a new process."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.inside import hooked, memory, session
from benchmarks.work.stepping import versions


@dataclasses.dataclass(frozen=True)
class Scaled:
    """PPO to measure.

    Attributes:
      num_envs: B.
      train: train with updates; else the policy only acts.
      env: Gymnasium id.
      rollout_length: T.
      epochs: passes over the ``T * B`` transitions.
      minibatches: number of minibatches of a pass.
      seconds: seconds to measure after the first iteration.
      num_workers: number of processes; None uses one per core.
    """

    num_envs: int
    train: bool = True
    env: str = "CartPole-v1"
    rollout_length: int = 128
    epochs: int = 4
    minibatches: int = 4
    seconds: float = 5.0
    num_workers: int | None = None


def measure(work: Scaled) -> dict[str, Any]:
    """Measure env steps/s, seconds per iteration, and the memory at the end."""
    from tfagents_batch.algorithms import ppo
    from tfagents_batch.sources import on_policy
    from tfagents_batch.training.config import RunConfig
    from tfagents_batch.training.experiment import Experiment

    settings = ppo.Config(
        epochs=work.epochs,
        minibatch_size=work.rollout_length * work.num_envs // work.minibatches,
    )
    config = RunConfig(
        env=work.env,
        num_envs=work.num_envs,
        num_workers=work.num_workers,
        source=on_policy.RolloutSettings(length=work.rollout_length),
        eval_every=0,
        compile_cache=False,  # a cache would change the time of first iterations
        settings=settings,
    )
    with Experiment(config) as experiment:
        experiment.start(0)
        done = 0
        block = (_training if work.train else _acting)(experiment)

        def counted() -> int:
            nonlocal done
            done += 1
            return block()

        first = session.repeat(counted, 0.0, 1)
        done = 0
        steady = session.repeat(counted, work.seconds)
        return {
            "env_steps_per_second": steady.rate,
            "iteration_seconds": steady.seconds / done,
            "iterations": done,
            "first_iteration_seconds": first.seconds,
            **memory.resident(),
            "route": getattr(experiment.env, "backend", "in the graph"),
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

    @function(envs=[experiment.env], jit_compile=source.compilable, autograph=False)
    def collect(seed):
        # Return all of it, because XLA drops unused results.
        return source.collect(seed, tf.constant(0, tf.int64))

    seeds = iter(range(2**31))

    def block() -> int:
        return int(collect(tf.constant(next(seeds), tf.int32)).steps)

    return block


if __name__ == "__main__":
    with session.result_line() as result:
        hooked.load()
        result.update(measure(Scaled(**session.work_flag(sys.argv[1:]))))
