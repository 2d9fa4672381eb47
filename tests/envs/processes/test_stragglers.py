import time

import numpy as np

from tfagents_batch.envs.processes.stragglers import Stragglers
from tfagents_batch.envs.testing import CountingEnv


def timing(*workers):
    """Return one row of 8 entries per worker; the first 4 have a duration."""
    rows = np.zeros((len(workers), 8), np.uint32)
    for row, microseconds in zip(rows, workers, strict=True):
        row[:4] = microseconds + 1
    return rows


def test_times_are_of_the_median_and_the_slowest_worker():
    times = Stragglers().measure(timing(100, 100, 5000))
    assert times == {"time/worker_step_ms_p50": 0.1, "time/worker_step_ms_p99": 5.0}


SLOW = timing(100, 5000, 100)


def warned_at(measured, caplog):
    """Return the seconds of the measurements ``{seconds: rows}`` that give warnings."""
    now, seconds = [0.0], []
    stragglers = Stragglers(lambda: now[0])
    for now[0], rows in measured.items():
        caplog.clear()
        stragglers.measure(rows)
        seconds += [now[0]] * ("worker 1 slows down the others" in caplog.text)
    return seconds


def test_a_worker_that_is_slow_for_a_minute_gives_one_warning(caplog):
    assert warned_at(dict.fromkeys((0, 59, 61, 200), SLOW), caplog) == [61]


def test_a_worker_that_recovers_gives_no_warning(caplog):
    assert warned_at({0: SLOW, 30: timing(100, 100, 100), 70: SLOW}, caplog) == []


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
