import functools
import gc
import os
import sys
import threading
import time

import gymnasium
import numpy as np
import psutil
import pytest

from tests.support.backends import one_backend
from tests.support.fault_env import FaultEnv, fault_envs
from tests.support.stepped import Stepped
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.processes import workers
from tfagents_batch.envs.processes.worker_restart import Replacements
from tfagents_batch.envs.shared import layout, protocol
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import EnvError, Stopped, UserError


def cartpole():
    return gymnasium.make("CartPole-v1")


def test_rows_are_split_contiguously_and_evenly():
    assert workers.split(7, 3) == [range(0, 3), range(3, 5), range(5, 7)]


def test_every_batch_owns_its_memory(make_pool):
    pool = make_pool([CountingEnv] * 2, 1)
    first = pool.reset(1)
    copy = first.observation[0].copy()
    second = pool.steps()
    np.testing.assert_array_equal(first.observation[0], copy)
    second.observation[0][:] = 99  # TensorFlow owns it and may write to it
    pool.stop()
    failed = pool.steps()
    assert failed.observation[0].tolist() == [[0, 1], [0, 1]]


@one_backend
def test_a_worker_that_imports_tensorflow_gives_a_warning(make_pool, caplog):
    def constructor():
        sys.modules["tensorflow"] = sys  # importing it would take seconds
        return CountingEnv()

    make_pool([constructor] * 2, 2)
    assert [text[:28] for text in caplog.messages] == [
        "worker 0 imported TensorFlow",
        "worker 1 imported TensorFlow",
    ]


@one_backend
def test_cartpole_workers_have_sessions_of_their_own_and_below_60_megabytes(make_pool):
    pool = make_pool([cartpole] * 4, 2)
    assert [os.getsid(pid) for pid in pool.pids] == pool.pids
    pool.reset(3)
    pool.steps(60)
    sizes = [psutil.Process(pid).memory_info().rss / 1e6 for pid in pool.pids]
    print("worker RSS, MB:", sizes)
    assert max(sizes) < 60


@one_backend
def test_workers_use_one_thread_no_gpu_and_no_tensorflow(make_pool):
    class Probe(CountingEnv):
        def step(self, action):
            *rest, _ = super().step(action)
            threads = int(os.environ["OMP_NUM_THREADS"])
            hidden = os.environ["CUDA_VISIBLE_DEVICES"] == ""
            loaded = "tensorflow" in sys.modules
            return (*rest, {"threads": threads, "hidden": hidden, "loaded": loaded})

    assert "tensorflow" in sys.modules
    keys = {"threads": "int32", "hidden": "bool", "loaded": "bool"}
    pool = make_pool([lambda: Probe()], 1, info_keys=keys)
    pool.reset(1)
    found = {name: pool.steps().info[name].tolist() for name in keys}
    assert found == {"threads": [1], "hidden": [True], "loaded": [False]}


@pytest.mark.parametrize("num_workers", [0, 1])
def test_observations_outside_their_box_are_counted_and_logged_once(
    make_pool, caplog, num_workers
):
    pool = make_pool(fault_envs("out_of_bounds", episode=None, step=0), num_workers)
    pool.reset(1)
    pool.steps(25)
    pool.check()
    assert pool.metrics()["env/observation_out_of_bounds"] == 3
    assert len(caplog.messages) == 1
    assert "env 1: observation lies outside" in caplog.messages[0]


@pytest.mark.parametrize(
    ("constructors", "num_workers", "text"),
    [
        ([], None, "no constructors"),
        ([CountingEnv], 2, "num_workers is 2; expected 0 .* to 1"),
        ([CountingEnv], -1, "num_workers is -1"),
        ([CountingEnv], 0.5, "num_workers is 0.5"),
        ([CountingEnv, CountingEnv()], 1, "constructor 1 is"),
        ([CountingEnv, functools.partial(CountingEnv, threading.Lock())], 1, "env 1"),
    ],
)
def test_wrong_arguments_are_refused(constructors, num_workers, text):
    with pytest.raises(UserError, match=text):
        ProcessEnv(constructors, num_workers)


def test_worker_processes_need_linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UserError, match="worker processes need Linux"):
        ProcessEnv([CountingEnv], 1)
    pool = ProcessEnv([CountingEnv])
    assert pool.num_workers == 0
    pool.close()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_pool_can_be_closed_twice_and_refuses_later_use(make_pool, num_workers):
    pool = make_pool([CountingEnv] * 2, num_workers)
    pool.reset(1)
    pool.steps(3)
    pool.close()
    pool.close()
    found = pool.metrics()  # it still reports them
    assert found["env/not_finite"] == 0 and found["time/env_step_ms"] > 0
    assert not pool.ok
    pool.check()
    failed = pool.steps()
    assert (failed.first & failed.truncated).all()
    with pytest.raises(
        EnvError, match="the environments are closed; create a new environment"
    ):
        pool.check()


def test_a_garbage_collected_pool_closes_itself():
    pool = ProcessEnv([CountingEnv] * 2, 2, backend="portable")
    processes = [psutil.Process(pid) for pid in pool.pids]
    del pool
    gc.collect()
    assert not any(process.is_running() for process in processes)


def test_stepping_before_reset_is_refused(make_pool):
    pool = make_pool([CountingEnv], 0)
    pool.steps()
    with pytest.raises(UserError, match="before reset"):
        pool.check()


@one_backend
def test_ctrl_c_in_process_is_raised_and_ends_the_pool(make_pool):
    """It comes from the user, so it is no failure of the environment."""
    closed = []

    class Interrupted(CountingEnv):
        def step(self, action):
            raise KeyboardInterrupt

        def close(self):
            closed.append(self)

    pool = make_pool([Interrupted] * 2, 0)
    pool.reset(1)
    with pytest.raises(KeyboardInterrupt):
        pool.steps(5)
    assert not pool.ok and not closed
    with pytest.raises(Stopped, match="interrupted"):
        pool.check()
    assert len(closed) == 2


@pytest.mark.parametrize("num_workers", [0, 1])
def test_after_stop_every_step_returns_at_once(make_pool, num_workers):
    pool = make_pool([CountingEnv] * 2, num_workers)
    pool.reset(1)
    pool.stop()
    batch = pool.steps(1000)
    assert (batch.first & batch.truncated).all()
    assert not pool.ok
    with pytest.raises(Stopped):
        pool.check()


@pytest.mark.parametrize("returns_first", ["the step", "the stop"])
def test_a_pool_can_be_closed_while_it_steps(make_pool, monkeypatch, returns_first):
    pool = make_pool([functools.partial(FaultEnv, "hang", step=0)], 1)
    pool.reset(1)
    thread = threading.Thread(target=pool.steps)
    thread.start()
    deadline = time.monotonic() + 10
    command = pool.words[0]
    while command[layout.COMMAND] != protocol.STEP and time.monotonic() < deadline:
        time.sleep(0.001)
    stop = pool._workers.stop

    def stop_and_join():
        stop()
        thread.join(0.5)

    if returns_first == "the step":
        monkeypatch.setattr(pool._workers, "stop", stop_and_join)
    started = time.monotonic()
    pool.close()
    assert time.monotonic() - started < 2.5
    thread.join(10)
    assert not thread.is_alive()


def test_a_worker_that_is_ready_after_the_pool_was_closed_is_ended(monkeypatch):
    constructors = [functools.partial(FaultEnv, "exit", step=0)]
    options = {"on_fault": "restart", "backend": "portable"}
    pool = Stepped(ProcessEnv(constructors, 1, **options))
    replace, pids = Replacements.replace, []

    def replace_and_close(*arguments):
        worker = replace(*arguments)
        closing = threading.Thread(target=pool.close)
        closing.start()
        closing.join(10)
        pids.append(worker.pid)
        return worker

    monkeypatch.setattr(Replacements, "replace", replace_and_close)
    pool.reset(1)
    pool.steps(2)
    assert len(pids) == 1 and not psutil.pid_exists(pids[0])
