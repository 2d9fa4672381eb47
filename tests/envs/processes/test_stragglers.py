from __future__ import annotations

import time

import numpy as np

from tfagents_batch.envs.processes.stragglers import Stragglers
from tfagents_batch.envs.testing import CountingEnv


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def timing(*workers):
    """Return one row of 8 entries per worker; the first 4 have a duration."""
    rows = np.zeros((len(workers), 8), np.uint32)
    for row, microseconds in zip(rows, workers, strict=True):
        row[:4] = microseconds + 1
    return rows


def test_times_are_of_the_median_and_the_slowest_worker():
    times, warning = Stragglers().measure(timing(100, 100, 5000))
    assert times == {"time/worker_step_ms_p50": 0.1, "time/worker_step_ms_p99": 5.0}
    assert warning == ""


def test_there_are_no_times_before_the_first_step():
    assert Stragglers().measure(np.zeros((2, 8), np.uint32)) == ({}, "")


def test_a_worker_that_is_slow_for_a_minute_gives_one_warning():
    clock = Clock()
    stragglers = Stragglers(clock)
    slow = timing(100, 5000, 100)
    assert stragglers.measure(slow)[1] == ""
    clock.now = 59
    assert stragglers.measure(slow)[1] == ""
    clock.now = 61
    assert "worker 1 slows down the others" in stragglers.measure(slow)[1]
    clock.now = 200
    assert stragglers.measure(slow)[1] == ""


def test_a_worker_that_recovers_gives_no_warning():
    clock = Clock()
    stragglers = Stragglers(clock)
    stragglers.measure(timing(100, 5000, 100))
    clock.now = 30
    stragglers.measure(timing(100, 100, 100))
    clock.now = 70
    assert stragglers.measure(timing(100, 5000, 100))[1] == ""


def test_a_slow_environment_shows_in_the_times_of_a_pool(make_pool):
    class Slow(CountingEnv):
        def step(self, action):
            time.sleep(0.02)
            return super().step(action)

    pool = make_pool([CountingEnv, lambda: Slow()], 2)
    pool.reset(1)
    pool.steps(4)
    metrics = pool.metrics()
    assert metrics["time/worker_step_ms_p99"] >= 20
