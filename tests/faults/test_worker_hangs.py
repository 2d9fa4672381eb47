import signal
import time

import numpy as np
import pytest

from tests.support.backends import on_backends, one_backend
from tests.support.fault_env import fault_envs
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import WorkerTimeout


@on_backends(
    "hang",
    portable=[
        ("hang", "in _fail"),
        ("stop", "<no stack: it did not answer SIGUSR1>"),
    ],
    native=[("hang", "in _fail"), ("hang_gil", "in _hang_with_gil")],
)
def test_a_worker_that_hangs_is_killed_and_its_stack_reported(make_pool, hang):
    mode, stack = hang
    pool = make_pool(fault_envs(mode, 4, step=0), 2, step_seconds=0.3)
    pool.reset(3)
    started = time.monotonic()
    batch = pool.step([np.ones(4, np.int32)])
    assert time.monotonic() - started < 0.3 + 3
    assert batch.observation[0][:, 2].tolist() == [1, 1, 0, 0]
    with pytest.raises(WorkerTimeout, match="did not answer before its deadline") as e:
        pool.check()
    error = e.value
    assert (error.env, error.worker, error.step, error.action) == (3, 1, 0, "1")
    assert stack in str(error)


@one_backend
def test_a_worker_that_ignores_signals_is_killed(drive):
    class Stubborn(CountingEnv):
        def step(self, action):
            for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            time.sleep(3600)

    error = drive([lambda: Stubborn()], step_seconds=0.3)
    assert type(error) is WorkerTimeout
    assert "<no stack: it did not answer SIGUSR1>" in str(error)


def test_late_replies_never_become_data(make_pool):
    pool = make_pool(fault_envs("slow_once", seconds=0.6), 1, step_seconds=0.3)
    pool.reset(3)
    batch = pool.steps(30)
    assert (batch.first & batch.truncated).all()
    assert batch.observation[0].tolist() == [[0, 0, 3], [1, 0, 3]]
    with pytest.raises(WorkerTimeout):
        pool.check()


def test_the_pool_waits_for_slow_environments_within_the_deadline(make_pool):
    pool = make_pool(fault_envs("slow_once", seconds=0.3), 2, step_seconds=30)
    pool.reset(3)
    batch = pool.steps(6)
    pool.check()
    assert batch.observation[0].tolist() == [[0, 0, 6], [1, 0, 6]]


def test_none_means_no_deadline(make_pool):
    never = dict.fromkeys(("construct_seconds", "reset_seconds", "step_seconds"))
    pool = make_pool(fault_envs(None), 1, **never)
    pool.reset(3)
    pool.steps()
    pool.check()


@on_backends("mode", portable=["hang"], native=["stop"])
def test_closing_does_not_wait_for_an_environment_that_hangs_in_close(make_pool, mode):
    pool = make_pool(fault_envs(mode, phase="close"), 2)
    pool.reset(3)
    started = time.monotonic()
    pool.close()
    assert time.monotonic() - started < 2.5


@one_backend
def test_an_error_in_close_is_only_logged(make_pool, caplog):
    pool = make_pool(fault_envs("exc", phase="close"), 1)
    pool.reset(3)
    pool.close()
    assert "raised ValueError in close(): something broke" in caplog.text
