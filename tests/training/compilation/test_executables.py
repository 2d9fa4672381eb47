"""The memory of compiled programs is freed when the last run of a process ends."""

import gc
import threading

import psutil
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch.errors import UserError
from tfagents_batch.training.compilation import executables


@tf.function(jit_compile=True, autograph=False)
def square(x):
    return x * x


@pytest.fixture
def freed(monkeypatch):
    """Return a list of the calls that free programs."""
    calls = []
    free = executables._free
    monkeypatch.setattr(executables, "_FEW", -1)
    monkeypatch.setattr(executables, "_free", lambda: calls.append(1) or free())
    return calls


def train(root, size, algorithm="ppo", env="tf/CartPole-v1"):
    """Train for two iterations with a program that depends on ``size``."""
    length = 4 * size
    tfb.train(
        algorithm=algorithm,
        env=env,
        steps=4 * length,
        num_envs=2,
        rollout={"length": length},
        eval_every=0,
        compile="full",
        logdir=root,
    )
    gc.collect()


def test_runs_free_their_memory_maps(linear, tmp_path):
    sizes, maps = (1, 2), []
    for size in sizes:
        train(tmp_path, size, linear, "tf/Bandit-v0")
        maps.append(executables._maps())
    assert maps[-1] < maps[0] + 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_runs_twice_need_no_more_than_the_first_twenty(tmp_path):
    maps, memory = [], []
    for _ in range(2):
        for run in range(20):
            train(tmp_path, 1 + run % 5)
        maps.append(executables._maps())
        memory.append(psutil.Process().memory_info().rss)
    assert maps[1] < maps[0] + 50
    assert memory[1] < memory[0] + 100 * 2**20


def test_a_program_that_was_freed_is_compiled_again(freed):
    assert square(tf.constant(3.0)) == 9.0
    with executables.limited_to_run():
        assert square(tf.constant(4.0)) == 16.0
    assert freed and square(tf.constant(5.0)) == 25.0


def test_programs_stay_while_another_run_is_open(freed):
    with executables.limited_to_run():
        with executables.limited_to_run():
            pass
        assert not freed
    assert freed


def test_programs_stay_while_another_thread_is_in_tensorflow(freed):
    inside, leave = threading.Event(), threading.Event()

    def wait():
        inside.set()
        leave.wait(60)

    thread = threading.Thread(target=lambda: tf.py_function(wait, [], []))
    thread.start()
    assert inside.wait(60)
    with executables.limited_to_run():
        pass
    leave.set()
    thread.join(60)
    assert not freed


def test_a_run_near_the_limit_of_memory_maps_is_refused(monkeypatch):
    monkeypatch.setattr(executables, "_maps", lambda: 10**9)
    with (
        pytest.raises(
            UserError, match=r"10{9} memory maps.*sysctl -w vm.max_map_count"
        ),
        executables.limited_to_run(),
    ):
        pass
