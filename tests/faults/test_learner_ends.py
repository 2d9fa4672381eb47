"""Workers end with their learner, which is another process here."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

PORTABLE = """
    import numpy as np
    from tfagents_batch.envs.graph.process_env import ProcessEnv
    from tests.support.fault_env import fault_envs
    env = ProcessEnv(fault_envs({mode!r}, step=5), 2, backend="portable")
    env.engine.reset(1)
    print(*env.pids, flush=True)
    def step():
        env.engine.step([np.zeros(2, np.int32)])
"""
NATIVE = """
    from tfagents_batch.envs.graph.process_env import ProcessEnv
    from tests.support.fault_env import fault_envs
    env = ProcessEnv(fault_envs({mode!r}, step=5), 2, backend="native")
    state, _ = env.init(1)
    print(*env.pids, flush=True)
    def step():
        global state
        state, _ = env.step(state, [0, 0])
"""
IDLE = "input()"
STEPPING = """
    while True:
        step()
"""
FORKING = """
    import os, sys
    for _ in range(2):
        child = os.fork()
        if child == 0:
            sys.exit(0)  # runs the child's exit handlers
        os.waitpid(child, 0)
    print(env.engine.step([np.zeros(2, np.int32)]).observation[0].tolist())
    env.check()
    env.close()
    if os.fork() == 0:
        os._exit(0)
"""
UNGUARDED = """
    import tensorflow as tf
    from tfagents_batch.envs.graph.process_env import ProcessEnv
    from tfagents_batch.envs.testing import CountingEnv

    assert tf.linalg.matmul(tf.ones([9, 9]), tf.ones([9, 9]))[0, 0] == 9

    class Mine(CountingEnv):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return (observation, reward * scale, *rest)

    scale = 3.0
    env = ProcessEnv([Mine, lambda: Mine(length=7), Mine, lambda: Mine()], 2)
    print(*env.pids, flush=True)  # once: workers do not run this script again
    state, _ = env.init(1)
    print(env.step(state, [0] * 4)[1].reward.numpy().tolist())
"""
RUNNING_GRAPH = """
    import tensorflow as tf
    from tests.support.fault_env import fault_envs
    from tfagents_batch.envs.graph.process_env import ProcessEnv
    env = ProcessEnv(fault_envs(None), 2)
    @tf.function
    def run():
        state, _ = env.init(1)
        for _ in tf.range(10**9):
            state, _ = env.step(state, [0, 0])
        return state
    print(*env.pids, flush=True)
    run()
"""


@contextlib.contextmanager
def learner(body, mode=None, backend="portable"):
    """Start a learner that runs ``body``; yield it and its workers' process ids.

    Without a ``backend``, ``body`` creates the environments.
    """
    start = {"native": NATIVE, "portable": PORTABLE, None: ""}[backend]
    script = textwrap.dedent(start.format(mode=mode)) + textwrap.dedent(body)
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    ) as process:
        try:
            yield process, [int(pid) for pid in process.stdout.readline().split()]
        finally:
            process.kill()


def alive(pids):
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
    return found


def assert_gone(pids, seconds=2.0):
    assert len(pids) == 2
    deadline = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive(pids) == []


# With the native backend, it is killed inside a graph, see below.
@pytest.mark.parametrize(("body", "mode"), [(IDLE, None), (STEPPING, "hang_gil")])
def test_workers_end_if_the_learner_is_killed(body, mode):
    before = os.listdir("/dev/shm")
    with learner(body, mode) as (process, pids):
        assert alive(pids) == pids
        process.kill()
        assert_gone(pids)
    assert os.listdir("/dev/shm") == before


def test_workers_end_when_the_interpreter_ends():
    with learner("") as (process, pids):
        _, errors = process.communicate(timeout=30)
        assert_gone(pids)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.any_backend
def test_an_unguarded_script_with_its_own_classes_works_and_its_workers_end():
    with learner(UNGUARDED, backend=None) as (process, pids):
        output, errors = process.communicate(timeout=30)
        assert_gone(pids)
    assert (process.returncode, output) == (0, "[3.0, 3.0, 3.0, 3.0]\n")
    assert "Traceback" not in errors and "tfagents_batch" not in errors


def test_forking_the_learner_gives_one_warning_and_does_no_harm():
    with learner(FORKING) as (process, _):
        output, errors = process.communicate(timeout=30)
    assert errors.count("this process is forked while environments run") == 1
    assert (process.returncode, output) == (0, "[[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]]\n")


def test_workers_end_when_the_learner_raises():
    with learner("raise KeyError('mine')") as (process, pids):
        _, errors = process.communicate(timeout=30)
        assert_gone(pids)
    assert process.returncode == 1
    assert errors.rstrip().endswith("KeyError: 'mine'")


def test_sigterm_ends_learner_and_workers():
    with learner(STEPPING) as (process, pids):
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert_gone(pids)
    assert process.returncode == -signal.SIGTERM


def test_ctrl_c_ends_an_eager_learner_without_output_of_workers(backend):
    with learner(STEPPING, "hang", backend) as (process, pids):
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert_gone(pids)
    assert process.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.any_backend
def test_workers_end_if_the_learner_is_killed_inside_a_graph():
    with learner(RUNNING_GRAPH, backend=None) as (process, pids):
        process.kill()
        assert_gone(pids)
