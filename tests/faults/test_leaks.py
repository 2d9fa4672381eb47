from __future__ import annotations

import gc
import os
import threading
import time

import numpy as np
import psutil
import pytest

from tfagents_batch.envs.pool import Pool
from tfagents_batch.envs.testing import CountingEnv, fault_envs
from tfagents_batch.errors import EnvError


def held():
    return (
        len(os.listdir("/proc/self/fd")),
        sorted(os.listdir("/dev/shm")),
        threading.active_count(),
        len(psutil.Process().children(recursive=True)),
    )


def test_pools_that_come_and_go_leave_nothing(route, request):
    native = route == "native"
    library = request.getfixturevalue("library") if native else None
    before = held()
    for index in range(200):
        # Most of them without a process, so that this takes seconds.
        num_workers = 1 if index % 20 == 0 else 0
        pool = Pool([CountingEnv] * 2, num_workers, library=library)
        pool.reset(1)
        pool.step([np.zeros(2, np.int32)])
        pool.close()
        assert held() == before
    del pool
    gc.collect()
    with open("/proc/self/maps") as maps:
        assert "memfd:tfagents_batch" not in maps.read()


def test_constructions_that_fail_leave_nothing():
    before = held()
    for phase_mode in ("exc", "kill"):
        with pytest.raises(EnvError):
            Pool(fault_envs(phase_mode, phase="construct"), 2)
        assert held() == before


def test_pools_have_no_name_in_shared_memory(make_pool):
    before = sorted(os.listdir("/dev/shm"))
    make_pool([CountingEnv] * 2, 2).reset(1)
    assert sorted(os.listdir("/dev/shm")) == before


def test_processes_that_environments_start_end_with_the_pool(make_pool):
    pool = make_pool(fault_envs("fork_child", step=0), 1)
    pool.reset(1)
    pool.step([np.zeros(2, np.int32)])
    (child,) = psutil.Process(pool.pids[0]).children()
    pool.close()
    deadline = time.monotonic() + 5
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(child)


@pytest.mark.parametrize(
    "mode", ["flood_stdout", "flood_stderr", "chdir", "steal_signals", "threads"]
)
def test_environments_that_disturb_their_process_step_on(make_pool, mode):
    pool = make_pool(fault_envs(mode), 1)
    pool.reset(1)
    for step in range(1, 9):
        batch = pool.step([np.zeros(2, np.int32)])
        assert batch.observation[0].tolist() == [[0, 0, step], [1, 0, step]]
    pool.check()


def _runs(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
