import os
import signal
import sys
import time

import numpy as np
import pytest

from tests.support.backends import on_backends, one_backend
from tests.support.fault_env import fault_envs
from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import EnvError, ProtocolError, WorkerCrashed

CRASHES = {
    "kill": "was killed by SIGKILL",
    "exit": "exited with code 3",
    "segv": "was killed by SIGSEGV",
}
CLOSED = r"lost its control socket: .* closed file descriptors that are not its own"
ACTION = [np.ones(4, np.int32)]


def test_a_crash_in_a_constructor_is_reported():
    with pytest.raises(WorkerCrashed, match=CRASHES["kill"]) as caught:
        ProcessEnv(fault_envs("kill", 4, phase="construct"), 2, backend="portable")
    assert (caught.value.env, caught.value.worker) == (3, 1)
    assert caught.value.phase == "construct"


@on_backends(
    "crash",
    portable=[("kill", "step"), ("segv", "reset")],
    native=[("kill", "reset"), ("segv", "step"), ("exit", "reset")],
)
def test_a_crash_is_reported_and_the_pool_closed_within_seconds(make_pool, crash):
    mode, phase = crash
    pool = make_pool(fault_envs(mode, 4, phase=phase), 2)
    started = time.monotonic()
    pool.reset(3)
    for _ in range(4):
        batch = pool.step(ACTION)
    assert time.monotonic() - started < 2
    invalid = (batch.first & batch.truncated).tolist()
    assert invalid == ([False, False, True, True] if phase == "step" else [True] * 4)
    started = time.monotonic()
    with pytest.raises(WorkerCrashed, match=CRASHES[mode]) as caught:
        pool.check()  # closes the pool
    assert time.monotonic() - started < 2
    error = caught.value
    assert (error.env, error.worker, error.phase) == (3, 1, phase)
    assert error.episode == 0
    if phase == "step":
        assert (error.step, error.action) == (3, "1")
        assert batch.observation[0][3].tolist() == [3, 0, 3]
    if mode == "segv":
        assert "Fatal Python error: Segmentation fault" in str(error)
        assert "in string_at" in str(error)


def test_a_crash_while_idle_is_reported_without_a_step(make_pool):
    pool = make_pool(fault_envs(None, 4), 2)
    pool.reset(3)
    os.kill(pool.pids[1], signal.SIGKILL)
    with pytest.raises(WorkerCrashed, match=r"\(envs 2 to 3\) .* SIGKILL while idle"):
        _until(pool.check)


def test_a_crash_while_idle_is_reported_by_the_next_step(make_pool):
    pool = make_pool(fault_envs(None, 4), 2)
    pool.reset(3)
    os.kill(pool.pids[0], signal.SIGKILL)
    batch = pool.step(ACTION)
    assert (batch.first & batch.truncated).tolist()[:2] == [True, True]
    with pytest.raises(WorkerCrashed, match="SIGKILL"):
        pool.check()


@one_backend
def test_the_last_lines_of_its_output_are_reported(drive):
    class Talking(CountingEnv):
        def step(self, action):
            for line in range(10_000):
                print("line", line)
            sys.stdout.flush()
            os.write(2, b"last \xff words\n")
            os._exit(3)

    error = drive([lambda: Talking()])
    assert "line 9999" in str(error)
    assert "line 9000" not in str(error)
    assert r"last \xff words" in str(error)


@one_backend
def test_lack_of_memory_is_an_error_with_its_text(drive):
    error = drive(fault_envs("oom", phase="reset"))
    assert type(error) is EnvError
    assert "Unable to allocate 1.00 GiB" in str(error)


def test_bytes_that_are_not_a_frame_are_a_protocol_error(drive):
    error = drive(fault_envs("garbage_reply", 4), 2)
    assert type(error) is ProtocolError and error.worker == 1
    assert "not a frame" in str(error)


@on_backends(
    "fault",
    portable=[("close_descriptors", "step"), ("reuse_descriptors", "step")],
    native=[("close_descriptors", "construct"), ("close_descriptors", "step")],
)
def test_closed_file_descriptors_are_named_as_the_cause(make_pool, fault):
    mode, phase = fault
    constructors = fault_envs(mode, 4, phase=phase)
    with pytest.raises(WorkerCrashed, match=CLOSED) as caught:
        pool = make_pool(constructors, 2)
        pool.reset(3)
        _until(lambda: (pool.step(ACTION), pool.check()))
    assert caught.value.worker == 1
    assert "idle" not in str(caught.value)


def test_replies_to_other_requests_are_dropped_and_counted(make_pool):
    pool = make_pool(fault_envs("stale_reply"), 1)
    pool.reset(3)
    for step in range(1, 9):
        batch = pool.steps()
        assert batch.observation[0][:, 2].tolist() == [step, step]
    pool.check()
    assert pool.metrics()["env/stale_replies"] == 1


def _until(call, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        call()
    pytest.fail(f"nothing happened for {seconds} s")
