import dataclasses
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from tfagents_batch.algorithms import ppo
from tfagents_batch.envs import waiting
from tfagents_batch.nn import networks
from tfagents_batch.training import threads
from tfagents_batch.training.config import Config, exclusive
from tfagents_batch.types import EnvSpec

VECTOR = gymnasium.spaces.Box(-1, 1, (17,))
IMAGE = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)


def spec(space, num_envs=8):
    return EnvSpec(num_envs, space, gymnasium.spaces.Discrete(2), {}, 100)


def config(hidden=None, minibatch=64, **options):
    network = networks.Config(hidden=hidden)
    settings = ppo.Config(minibatch_size=minibatch, network=network)
    return Config(env="x", settings=settings, **options)


def test_a_small_network_gets_one_thread():
    number, reason = threads.choose(config(), spec(VECTOR), cores=4)
    assert number == 1 and "too few" in reason


def test_wide_layers_and_large_minibatches_get_every_core():
    assert threads.choose(config((512, 512), 1024), spec(VECTOR), 4)[0] == 4
    assert threads.choose(config((512, 512), 16), spec(VECTOR), 4)[0] == 1


def test_a_wide_observation_counts_as_a_layer():
    wide = gymnasium.spaces.Box(-1, 1, (20_000,))
    assert threads.choose(config(), spec(wide), 4)[0] == 4


def test_a_minibatch_is_no_larger_than_what_is_collected():
    small = config((256,), 2**20, num_envs=2, rollout_length=8)
    assert threads.choose(small, spec(VECTOR, 2), 4)[0] == 1


def test_without_a_minibatch_size_all_that_is_collected_is_one():
    options = {"num_envs": 8, "rollout_length": 8}
    assert threads.choose(config((64,), None, **options), spec(VECTOR), 4)[0] == 1
    options = {"num_envs": 8, "rollout_length": 10_000}
    assert threads.choose(config((64,), None, **options), spec(VECTOR), 4)[0] == 4
    options = {"num_envs": 8, "update_every": 256}  # episodes, of 100 steps at most
    assert threads.choose(config((64,), None, **options), spec(VECTOR), 4)[0] == 4


@pytest.mark.parametrize("nested", [False, True])
def test_images_get_every_core(nested):
    space = gymnasium.spaces.Dict({"a": VECTOR, "b": IMAGE}) if nested else IMAGE
    assert threads.choose(config(), spec(space), 4) == (4, "observations are images")


def test_what_was_asked_for_is_taken():
    assert threads.choose(config(threads=3), spec(IMAGE), 4) == (3, "asked for")


def test_workers_and_environments_of_each_are_told(monkeypatch):
    monkeypatch.setattr(threads, "apply", lambda number, programs: True)
    monkeypatch.setattr(waiting, "available", lambda: [0, 1, 2])
    found = threads.settle(config(), spec(VECTOR, 8), 3)
    assert (found.threads, found.cores) == (1, 3)
    assert (found.num_workers, found.envs_per_worker) == (3, 3)
    assert str(found).startswith("1 thread of TensorFlow on 3 cores: ")
    assert str(found).endswith("; 3 workers of up to 3 environments")


def test_collecting_beside_an_update_gets_a_thread_of_its_own(monkeypatch):
    asked = []
    monkeypatch.setattr(threads, "apply", lambda *args, **kw: asked.append(kw) or True)
    for overlap in (False, True):
        threads.settle(config(overlap=overlap), spec(VECTOR))
    assert asked == [{"programs": 1}, {"programs": 2}]


@pytest.mark.parametrize("workers", [None, 0])
def test_environments_of_this_process_have_no_workers(monkeypatch, workers):
    monkeypatch.setattr(threads, "apply", lambda number, programs: True)
    found = threads.settle(config(), spec(VECTOR), workers)
    assert found.envs_per_worker is None
    assert "worker" not in str(found)


def test_threads_that_come_too_late_are_told(monkeypatch):
    monkeypatch.setattr(threads, "apply", lambda number, programs: False)
    found = threads.settle(config(threads=77), spec(VECTOR))
    assert found.threads != 77
    assert "too late for 77" in found.reason


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"num_workers": 2}, {"num_workers": 2, "envs_per_worker": None}),
        ({"envs_per_worker": 2}, {"num_workers": None, "envs_per_worker": 2}),
        ({"num_workers": None}, {"num_workers": None}),
        ({"num_workers": 1, "envs_per_worker": 2},) * 2,
    ],
)
def test_one_way_to_say_workers_takes_the_place_of_the_other(given, expected):
    assert exclusive(given) == expected


def test_threads_are_set_before_the_first_operation_and_not_after():
    code = """if True:
        import tensorflow as tf
        from tfagents_batch.training import threads
        assert threads.apply(1)
        tf.constant(1)
        assert threads.apply(1), "as it is"
        assert not threads.apply(3)
        assert tf.config.threading.get_intra_op_parallelism_threads() == 1
        assert tf.config.threading.get_inter_op_parallelism_threads() == 1
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_config_of_both_ways_is_refused():
    both = dataclasses.replace(config(), num_workers=2, envs_per_worker=4)
    with pytest.raises(ValueError, match="num_workers is 2 and envs_per_worker is 4"):
        both.check()


def test_a_network_of_the_users_own_gets_every_core():
    number, reason = threads.choose(config(), spec(VECTOR), 4, own_network=True)
    assert number == 4 and "your own" in reason
