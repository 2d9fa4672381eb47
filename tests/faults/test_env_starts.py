from __future__ import annotations

import errno
import functools
import importlib
import os
import resource
import subprocess
import sys
import threading
import time

import gymnasium.spaces as gs
import pytest

from tests.support.fault_env import FaultEnv, fault_envs
from tests.support.space_env import SpaceEnv
from tfagents_batch.envs.processes.pool import Pool
from tfagents_batch.errors import EnvError, UserError, WorkerTimeout


@pytest.mark.parametrize("target", [0, 2])
def test_a_failing_constructor_is_named_and_all_workers_end(target):
    with pytest.raises(EnvError, match="ValueError in its constructor") as caught:
        Pool(fault_envs("exc", 3, phase="construct", target=target), 3)
    assert (caught.value.env, caught.value.worker) == (target, target)
    assert caught.value.phase == "construct"
    assert "fault_env.py" in str(caught.value)


def test_a_failing_constructor_is_reported_although_another_one_hangs():
    hangs = functools.partial(FaultEnv, "hang", phase="construct")
    raises = functools.partial(FaultEnv, "exc", phase="construct")
    started = time.monotonic()
    with pytest.raises(EnvError, match="something broke"):
        Pool([hangs, raises], 2)
    assert time.monotonic() - started < 5


def test_a_constructor_that_hangs_times_out():
    with pytest.raises(WorkerTimeout, match="its constructor") as caught:
        Pool(fault_envs("hang", 4, phase="construct"), 2, construct_seconds=2)
    assert (caught.value.env, caught.value.worker) == (3, 1)
    assert "in _fail" in str(caught.value)


@pytest.mark.parametrize(
    ("num_workers", "episode"), [(0, 0), (0, 1), (0, 3), (2, 0), (2, 3)]
)
def test_a_failing_reset_is_reported_with_its_episode(drive, num_workers, episode):
    constructors = fault_envs("exc", phase="reset", episode=episode, length=2)
    error = drive(constructors, num_workers)
    assert (error.env, error.episode, error.phase) == (1, episode, "reset")
    assert f"raised ValueError in reset() of episode {episode}:" in str(error)
    assert error.action is None


def test_a_reset_that_hangs_times_out(drive):
    error = drive(fault_envs("hang", phase="reset"), reset_seconds=0.3)
    assert type(error) is WorkerTimeout
    assert (error.env, error.phase) == (1, "reset")


def test_a_restart_within_a_step_has_the_longer_deadline(make_pool):

    constructors = fault_envs(
        "slow_once", phase="reset", episode=1, length=1, seconds=0.5
    )
    pool = make_pool(constructors, 2, step_seconds=0.3, reset_seconds=30)
    pool.reset(1)
    batch = pool.steps(4)
    pool.check()
    assert batch.first.all()


@pytest.mark.parametrize("spare", [0, 7, 18])
def test_too_few_file_descriptors_give_one_line_and_leak_nothing(make_pool, spare):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + spare, hard))
    try:
        with pytest.raises(UserError, match=r"4 worker .* Too many open files; raise"):
            make_pool(fault_envs(None, 4), 4)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("place", "name", "error"),
    [
        (subprocess, "Popen", BlockingIOError(errno.EAGAIN, "try again")),
        (threading.Thread, "start", RuntimeError("can't start new thread")),
    ],
)
def test_too_few_processes_or_threads_give_one_line(
    make_pool, monkeypatch, place, name, error
):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(place, name, refuse)
    with pytest.raises(UserError, match=r"1 worker .* cannot be started") as caught:
        make_pool(fault_envs(None, 1), 1)
    assert "\n" not in str(caught.value)


def test_spaces_that_are_not_supported_are_refused_by_name():
    constructor = functools.partial(SpaceEnv, gs.Text(5))
    for num_workers in (0, 1):
        with pytest.raises(UserError, match="env 0: space Text is not supported"):
            Pool([constructor], num_workers)


def test_a_constructor_that_cannot_be_unpickled_is_a_failure(tmp_path):
    module = tmp_path / "temporary_module.py"
    module.write_text("from tfagents_batch.envs.testing import CountingEnv as Env\n")
    sys.path.insert(0, str(tmp_path))
    try:
        temporary = importlib.import_module("temporary_module")

        def constructor():
            return temporary.Env()

        Pool([constructor], 1).close()  # the worker finds a user's module
        module.unlink()
        with pytest.raises(EnvError, match="unpickled in the worker: No module named"):
            Pool([constructor], 1)
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules["temporary_module"]
