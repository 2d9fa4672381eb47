import gc
import os
import pathlib
import shutil
import threading
import time

import numpy as np
import psutil
import pytest

import tfagents_batch as tfb
from tests.support.backends import on_backends, one_backend
from tests.support.brief import QUICK
from tests.support.fault_env import fault_envs
from tests.support.stepped import Stepped
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import EnvError, WorkerCrashed

TRAININGS, SETTLED = 1000, 100  # and those after which nothing may grow


def resources():
    return (
        len(os.listdir("/proc/self/fd")),
        sorted(os.listdir("/dev/shm")),
        threading.active_count(),
        len(psutil.Process().children(recursive=True)),
    )


def open_and_close(count, backend):
    """Open and close pools of one process each, some with a failure."""
    modes = [None, "exc", "kill"]
    before = resources()
    for index in range(count):
        pool = Stepped(
            ProcessEnv(
                fault_envs(modes[index % len(modes)], step=0),
                1,
                backend=backend,
                on_fault="restart" if index % 2 else "raise",
            )
        )
        pool.reset(1)
        pool.steps()
        pool.close()
        assert resources() == before
    del pool
    gc.collect()
    with open("/proc/self/maps") as maps:
        assert "memfd:tfagents_batch" not in maps.read()


@pytest.mark.timeout(280)
def test_opening_and_closing_pools_leaks_nothing(backend):
    open_and_close(3, backend)  # every mode


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_thousand_pools_leak_nothing(backend):
    open_and_close(1000, backend)


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@pytest.mark.usefixtures("linear")
def test_a_thousand_trainings_leak_nothing(tmp_path):
    options = QUICK | {
        "env": "CartPole-v1",
        "num_envs": 2,
        "num_workers": 2,
        "rollout.length": 8,
        "steps": 32,
    }

    def held():
        gc.collect()
        maps = pathlib.Path("/proc/self/maps").read_text()
        return resources(), len(maps.splitlines())

    for index in range(TRAININGS):
        tfb.train("linear", logdir=tmp_path / "run", seed=index, **options)
        shutil.rmtree(tmp_path / "run")
        if index == SETTLED:
            settled, maps_before = held()
    ended, maps = held()
    assert ended == settled
    assert maps < maps_before + 50  # the heap may be mapped in other pieces


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_million_steps_leak_no_memory(backend):
    pool = Stepped(ProcessEnv([CountingEnv] * 8, 2, backend=backend))
    processes = [psutil.Process(pid) for pid in (os.getpid(), *pool.pids)]
    pool.reset(1)
    action = [np.zeros(8, np.int32)]
    sizes = []
    for step in range(125_000):
        pool.step(action)
        if step % 25_000 == 24_999:
            sizes.append([process.memory_info().rss for process in processes])
    pool.check()
    pool.close()
    print("resident bytes of learner and workers:", sizes)
    grown = np.array(sizes[-1]) - np.array(sizes[1])  # after warming up
    assert (grown < 2 << 20).all(), sizes


def test_processes_that_environments_start_end_with_the_pool(make_pool):
    pool = make_pool(fault_envs("fork_child", step=0), 1)
    pool.reset(1)
    pool.steps()
    (child,) = psutil.Process(pool.pids[0]).children()
    pool.close()
    deadline = time.monotonic() + 5
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(child)


@on_backends(
    "mode",
    portable=["flood_stdout", "chdir", "threads"],
    native=["steal_signals", "threads"],
)
def test_environments_that_disturb_their_process_can_still_step(make_pool, mode):
    pool = make_pool(fault_envs(mode), 1)
    pool.reset(1)
    for step in range(1, 9):
        batch = pool.steps()
        assert batch.observation[0].tolist() == [[0, 0, step], [1, 0, step]]
    pool.check()


def _runs(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


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
