from __future__ import annotations

import time

import numpy as np
import pytest

from tests.support.backends import one_backend
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import EnvError, WorkerCrashed

PATIENCE_SECONDS = 40


class Leaking(CountingEnv):
    """Environment that leaks one megabyte per step."""

    leaked: list = []  # noqa: RUF012

    def step(self, action):
        self.leaked.append(np.ones(1 << 20, np.uint8))
        return super().step(action)


def test_a_worker_above_its_memory_limit_is_replaced_without_using_a_restart(make_pool):
    pool = make_pool(
        [Leaking, Leaking], 1, on_fault="restart", max_worker_mb=150, max_restarts=0
    )
    pool.reset(1)
    deadline = time.monotonic() + PATIENCE_SECONDS
    events = []
    while len(events) < 2 and time.monotonic() < deadline:
        pool.steps()
        events += pool.events()
    failed, restarted = events
    assert "used more memory than max_worker_mb" in failed["cause"]
    assert restarted["envs"] == [0, 1]
    pool.check()


def test_a_worker_above_its_memory_limit_ends_after_an_episode(make_pool):
    class Grows(CountingEnv):
        def __init__(self):
            super().__init__(length=100)
            self.leaked = None

        def reset(self, **options):
            self.leaked = np.ones(100 << 20, np.uint8)
            return super().reset(**options)

    pool = make_pool([lambda: Grows()], 1, max_worker_mb=100)
    pool.reset(1)
    steps = 0
    while pool.ok and steps < 210:  # two episodes; memory is checked more often
        pool.steps()
        steps += 1
    assert 100 <= steps < 205
    with pytest.raises(WorkerCrashed, match="used more memory than max_worker_mb"):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            pool.check()


@one_backend
def test_the_size_of_the_largest_worker_is_a_metric(make_pool):
    pool = make_pool([CountingEnv] * 2, 2)
    assert 10 < pool.metrics()["system/worker_mb"] < 100


@one_backend
def test_a_memory_limit_that_is_too_low_is_refused(make_pool):
    with pytest.raises(EnvError, match="but max_worker_mb is 5: use a higher limit"):
        make_pool([CountingEnv], 1, max_worker_mb=5)
