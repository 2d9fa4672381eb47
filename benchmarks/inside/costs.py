"""Costs of workers, in a new process: memory, and the time to start and to end them."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks.inside import memory, session, trained

_PATIENCE_SECONDS = 30.0


@dataclasses.dataclass(frozen=True)
class Costs:
    """Workers to measure, with one environment each."""

    env: str = "CartPole-v1"
    num_workers: int = 4


def measure(work: Costs) -> dict[str, Any]:
    """Measure every figure once; return seconds and MiB by name."""
    import tfagents_batch as tfb
    from tfagents_batch.envs.native import build

    build.library()  # compiled before the measurement, because it is cached
    found = {}
    started = time.perf_counter()
    env = tfb.make_env(work.env, work.num_workers, work.num_workers)
    found["ready_seconds"] = time.perf_counter() - started
    with env:
        _steps(env, 1000)()
        infos = [process.memory_full_info() for process in memory.workers()]
        found["worker_rss_mib"] = max(info.rss for info in infos) / memory.MIB
        if hasattr(infos[0], "pss"):
            found["worker_pss_mib"] = max(info.pss for info in infos) / memory.MIB
        found["close_idle_seconds"] = _close(env)
    env = tfb.make_env(work.env, work.num_workers, work.num_workers)
    found["close_stepping_seconds"] = _close_during(env, _steps(env, 2**30), _busy)
    env = tfb.make_env(_hanging, work.num_workers, work.num_workers)
    found["close_hung_seconds"] = _close_during(env, _steps(env, 1), _still)
    return found


def _hanging() -> Any:
    """Create an environment that never returns from a step; runs in a worker."""
    from tfagents_batch.envs.testing import CountingEnv

    class Hanging(CountingEnv):
        def step(self, action):
            time.sleep(3600.0)

    return Hanging()


def _steps(env: Any, count: int) -> Callable[[], Any]:
    """Return a compiled program of ``count`` steps."""
    import tensorflow as tf

    action = tf.zeros([env.spec.num_envs], tf.int32)

    @tf.function(jit_compile=True)
    def play():
        state, _ = env.init(1)
        return tf.while_loop(
            lambda t, state, ok: (t < count) & ok,
            lambda t, state, ok: (t + 1, env.step(state, action)[0], env.ok(state)),
            (tf.constant(0), state, tf.constant(True)),
        )[0]

    return play


def _close(env: Any) -> float:
    """Close environments; return the seconds that it took."""
    started = time.perf_counter()
    env.close()
    return time.perf_counter() - started


def _close_during(
    env: Any, play: Callable[[], Any], reached: Callable[[float], bool]
) -> float:
    """Return the seconds of ``close`` while another thread runs a program.

    Args:
      env: environments to close.
      play: the program.
      reached: whether the state to measure is reached, by the CPU seconds before.
    """
    thread = threading.Thread(target=play, daemon=True)
    before = _cpu()
    thread.start()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not reached(before):
        if time.monotonic() > deadline:
            raise TimeoutError("the program did not reach the state to measure")
    elapsed = _close(env)
    thread.join(_PATIENCE_SECONDS)
    if thread.is_alive():
        raise TimeoutError("the program did not end when its environments were closed")
    return elapsed


def _cpu() -> float:
    return sum(sum(process.cpu_times()[:2]) for process in memory.workers())


def _busy(before: float) -> bool:
    time.sleep(0.05)
    return _cpu() > before + 0.2


def _still(before: float) -> bool:
    """Wait until the program is compiled and all workers hang."""
    time.sleep(3)
    return True


if __name__ == "__main__":
    session.figures(trained.load, measure, Costs)
