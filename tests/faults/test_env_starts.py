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
import numpy as np
import pytest

from tests.support.backends import on_backends, one_backend
from tests.support.fault_env import FaultEnv, fault_envs
from tests.support.space_env import SpaceEnv
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.errors import EnvError, UserError, WorkerTimeout


def test_a_failing_constructor_is_named_and_all_workers_end_even_one_that_hangs():
    hangs = functools.partial(FaultEnv, "hang", phase="construct")
    raises = functools.partial(FaultEnv, "exc", phase="construct")
    started = time.monotonic()
    with pytest.raises(EnvError, match="ValueError in its constructor: som") as caught:
        ProcessEnv([hangs, raises], 2, backend="portable")
    assert time.monotonic() - started < 5
    error = caught.value
    assert (error.env, error.worker, error.phase) == (1, 1, "construct")
    assert "fault_env.py" in str(error)


def test_a_constructor_that_hangs_times_out():
    with pytest.raises(WorkerTimeout, match="its constructor") as caught:
        ProcessEnv(fault_envs("hang", 4, phase="construct"), 2, construct_seconds=2)
    assert (caught.value.env, caught.value.worker) == (3, 1)
    assert "in _fail" in str(caught.value)


@on_backends("case", portable=[(0, 0), (0, 3), (2, 0)], native=[(2, 3)])
def test_a_failing_reset_is_reported_with_its_episode(drive, case):
    num_workers, episode = case
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
    slow = {"phase": "reset", "episode": 1, "length": 1, "seconds": 0.5}
    limits = {"step_seconds": 0.3, "reset_seconds": 30}
    pool = make_pool(fault_envs("slow_once", **slow), 2, **limits)
    pool.reset(1)
    batch = pool.steps(4)
    pool.check()
    assert batch.first.all()


@one_backend
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


@one_backend
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
            ProcessEnv([constructor], num_workers)


def test_a_constructor_that_cannot_be_unpickled_is_a_failure(tmp_path, monkeypatch):
    module = tmp_path / "temporary_module.py"
    module.write_text("from tfagents_batch.envs.testing import CountingEnv as Env\n")
    monkeypatch.syspath_prepend(tmp_path)
    temporary = importlib.import_module("temporary_module")

    def constructor():
        return temporary.Env()

    ProcessEnv([constructor], 1).close()  # the worker finds a user's module
    module.unlink()
    with pytest.raises(EnvError, match="unpickled in the worker: No module named"):
        ProcessEnv([constructor], 1)
    del sys.modules["temporary_module"]


BOX = gs.Box(-1, 1, (3,), np.float32)
PAIRS = [
    (BOX, gs.Box(-1, 1, (4,)), r"observation_space.shape is \[4\], not \[3\]"),
    (BOX, gs.Box(-1, 1, (3,), np.float64), "dtype is float64, not float32"),
    (BOX, gs.Box(-1, 2, (3,), np.float32), r"high is 2\.0, not 1\.0"),
    (BOX, gs.Discrete(3), "type is Discrete, not Box"),
    (gs.Discrete(3), gs.Discrete(3, start=1), "start is 1, not 0"),
    (gs.Dict(a=BOX), gs.Dict(a=BOX, b=BOX), "has 'b' only in"),
    (gs.Tuple([BOX]), gs.Tuple([BOX, BOX]), "observation_space.spaces is"),
]


@pytest.mark.parametrize(
    ("one", "other", "text", "num_workers"),
    [*((*pair, 0) for pair in PAIRS), (*PAIRS[0], 2)],
)
def test_the_first_difference_of_spaces_is_reported(one, other, text, num_workers):
    constructors = [functools.partial(SpaceEnv, space) for space in (one, one, other)]
    with pytest.raises(UserError, match=f"env 2 and env 0 disagree: .*{text}"):
        ProcessEnv(constructors, num_workers)


def test_action_spaces_are_compared_too():
    constructors = [functools.partial(SpaceEnv, BOX, gs.Discrete(n)) for n in (2, 3)]
    with pytest.raises(UserError, match=r"action_space\.n is 3, not 2"):
        ProcessEnv(constructors, 0)


def test_equal_spaces_of_different_objects_agree(make_pool):
    one = np.ones(3, np.float32)
    spaces = [gs.Box(-1, 1, (3,), np.float32), gs.Box(-one, one)]
    make_pool([functools.partial(SpaceEnv, space) for space in spaces], 0)
