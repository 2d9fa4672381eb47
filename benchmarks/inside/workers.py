"""Costs of worker processes, measured in a new process."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from benchmarks.inside import memory, session, trained
from benchmarks.work.works import versions


@dataclasses.dataclass(frozen=True)
class Workers:
    """Workers to measure, with one environment each."""

    env: str = "CartPole-v1"
    num_workers: int = 4
    steps: int = 1000  # of each environment, before its memory is measured


def measure(work: Workers) -> dict[str, Any]:
    """Measure memory, and the times to start and to end; MiB and seconds by name."""
    import tensorflow as tf

    import tfagents_batch as tfb
    from tfagents_batch.envs.native import build

    build.library()  # compiled before the measurement, because it is cached
    started = time.perf_counter()
    env = tfb.make_env(work.env, work.num_workers, work.num_workers)
    ready = time.perf_counter() - started
    action = tf.zeros([work.num_workers], tf.int32)

    @tf.function(jit_compile=True)
    def play():
        state, _ = env.init(1)
        for _ in tf.range(work.steps):
            state, _ = env.step(state, action)
        return state

    with env:
        play()
        infos = [worker.memory_full_info() for worker in memory.workers()]
        started = time.perf_counter()
        env.close()
        ended = time.perf_counter() - started
    return {
        "ready_seconds": ready,
        "worker_rss_mib": max(info.rss for info in infos) / memory.MIB,
        "worker_pss_mib": max(info.pss for info in infos) / memory.MIB,
        "close_seconds": ended,
        "versions": versions("tensorflow", "gymnasium", "numpy"),
    }


if __name__ == "__main__":
    session.figures(trained.load, measure, Workers)
