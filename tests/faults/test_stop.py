import contextlib
import os
import signal
import subprocess
import threading
import time

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from tests.support.backends import on_backends, one_backend
from tests.support.fault_env import fault_envs
from tfagents_batch.envs.shared import layout, protocol
from tfagents_batch.errors import Stopped


def endless(env):
    """Run a rollout that takes hours; return the number of valid steps, and ``ok``."""
    state, _ = env.init(1)
    valid = tf.constant(0)
    for _ in tf.range(2000):
        state, step = env.step(state, [0, 0])
        valid += tf.cast(tf.reduce_all(step.valid), tf.int32)
    return valid, env.ok(state)


@on_backends("mode", portable=["hang"], native=["slow_always"])
def test_a_stop_ends_a_blocked_rollout(make_process_env, mode):
    env = make_process_env(fault_envs(mode, step=0, seconds=30), 2)
    stopped = []

    def stop():
        """Stop after the first worker has received a step."""
        words = env.words[0]
        deadline = time.monotonic() + 20
        while words[layout.COMMAND] != protocol.STEP and time.monotonic() < deadline:
            time.sleep(0.001)
        stopped.append(time.monotonic())
        env.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    valid, ok = tf.function(endless)(env)
    # One step takes at least 30 s; the limit leaves time for a busy machine.
    assert time.monotonic() - stopped[0] < 15
    thread.join()
    assert not bool(ok)
    assert int(valid) == 0
    with pytest.raises(Stopped):
        env.check()


@contextlib.contextmanager
def signalled(handler):
    """Send this process a signal after a moment, for ``handler``."""
    before = signal.signal(signal.SIGUSR2, handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR2))
    timer.start()
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR2, before)
        timer.join()


# On the native backend the main thread waits in C, where Python runs no handlers.
@one_backend
def test_a_signal_handler_can_call_stop(make_pool):
    pool = make_pool(fault_envs("hang"), 1)
    pool.reset(1)
    with signalled(lambda *_: pool.stop()):
        batch = pool.steps(5)
    assert (batch.first & batch.truncated).all()
    with pytest.raises(Stopped):
        pool.check()


@one_backend
def test_an_interrupted_step_ends_the_pool(make_pool):
    pool = make_pool(fault_envs("hang"), 1)

    def interrupt(*_):
        raise KeyboardInterrupt

    pool.reset(1)
    with signalled(interrupt), pytest.raises(KeyboardInterrupt):
        pool.steps(5)
    assert not pool.ok
    with pytest.raises(Stopped, match="interrupted"):
        pool.check()


def test_workers_leave_signals_to_the_learner(make_pool):
    pool = make_pool(fault_envs(None, 4), 2)
    pool.reset(1)
    for step in range(1, 6):
        for pid in pool.pids:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(pid, number)
        batch = pool.steps()
        assert batch.observation[0][:, 2].tolist() == [step] * 4
    pool.check()


def test_processes_that_an_environment_starts_can_be_terminated(make_pool):
    class Simulator:
        """Environment with a forked process and a program, which both sleep."""

        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self):
            self.forked = os.fork()
            while not self.forked:
                signal.pause()
            self.program = subprocess.Popen(["sleep", "600"])

        def reset(self, *, seed=None, options=None):
            return np.zeros(2), {}

        def step(self, action):
            """Terminate the processes; observe their exit codes."""
            os.kill(self.forked, signal.SIGTERM)
            _, status = os.waitpid(self.forked, 0)
            self.program.terminate()
            ends = [os.waitstatus_to_exitcode(status), self.program.wait()]
            return np.array(ends, np.float64), 0.0, True, False, {}

        def close(self):
            pass

    pool = make_pool([Simulator], 1)
    pool.reset(1)
    batch = pool.steps()
    pool.check()
    assert batch.observation[0].tolist() == [[-signal.SIGTERM] * 2]
