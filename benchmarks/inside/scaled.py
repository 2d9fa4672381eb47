"""PPO with a given number of environments, in a fresh process: speed and memory."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.inside import hooked, memory, session
from benchmarks.work.stepping import versions


@dataclasses.dataclass(frozen=True)
class Scaled:
    """The work.

    Attributes:
      num_envs: B.
      train: with updates; else the policy only acts.
      env: Gymnasium id.
      rollout_length: T.
      epochs: passes over the ``T * B`` transitions.
      minibatches: of a pass.
      seconds: to measure for, after the first iteration.
      num_workers: processes; one per core if None.
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
    """Env steps/s, seconds an iteration, and memory at the end."""
    from tfagents_batch.algorithms import ppo
    from tfagents_batch.training.experiment import Experiment
    from tfagents_batch.training.run_config import Config

    settings = ppo.Config(
        epochs=work.epochs,
        minibatch_size=work.rollout_length * work.num_envs // work.minibatches,
    )
    config = Config(
        env=work.env,
        num_envs=work.num_envs,
        num_workers=work.num_workers,
        rollout_length=work.rollout_length,
        eval_every=0,
        compile_cache=False,  # the user's, which would make first iterations differ
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
    """Does an iteration; returns the transitions of it."""
    import tensorflow as tf

    algorithm = experiment.algorithm

    def block() -> int:
        before = int(algorithm.step.numpy())
        metrics = experiment.iterate(tf.constant(before, tf.int32))
        for value in metrics.values():  # as the training loop does
            value.numpy()
        return int(algorithm.step.numpy()) - before

    return block


def _acting(experiment: Any) -> Callable[[], int]:
    """Collects what an iteration would; returns the transitions."""
    import tensorflow as tf

    from tfagents_batch.envs.graph.function import function

    source = experiment.source

    @function(envs=[experiment.env], jit_compile=source.compilable, autograph=False)
    def collect(seed):
        trajectory = source(seed)
        # All of it is returned: XLA drops what nobody asks for.
        return tf.reduce_sum(tf.cast(trajectory.mask, tf.int32)), trajectory

    seeds = iter(range(2**31))

    def block() -> int:
        return int(collect(tf.constant(next(seeds), tf.int32))[0])

    return block


if __name__ == "__main__":
    with session.result_line() as result:
        hooked.load()
        result.update(measure(Scaled(**session.work_flag(sys.argv[1:]))))
