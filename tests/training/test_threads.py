import dataclasses
import subprocess
import sys
import types

import gymnasium
import numpy as np
import pytest

from tfagents_batch.algorithms import ppo
from tfagents_batch.envs.shared import cpus
from tfagents_batch.nn import networks
from tfagents_batch.training import threads
from tfagents_batch.training.config import RunConfig, with_options
from tfagents_batch.types import EnvSpec

VECTOR = gymnasium.spaces.Box(-1, 1, (17,))
IMAGE = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)


def spec(space, num_envs=8):
    return EnvSpec(num_envs, space, gymnasium.spaces.Discrete(2), {}, 100)


def config(hidden=None, minibatch=64, **options):
    network = networks.NetworkConfig(hidden=hidden)
    settings = ppo.PPOConfig(minibatch_size=minibatch, network=network)
    return with_options(RunConfig(env="x", settings=settings), options)


WIDE = gymnasium.spaces.Box(-1, 1, (20_000,))
WHOLE = {"hidden": (64,), "minibatch": None}  # a minibatch of all transitions


@pytest.mark.parametrize(
    ("space", "options", "expected"),
    [
        (VECTOR, {}, 1),  # small layers
        (VECTOR, {"hidden": (512, 512), "minibatch": 1024}, 4),
        (VECTOR, {"hidden": (512, 512), "minibatch": 16}, 1),
        (WIDE, {}, 4),  # an observation counts as a layer
        (VECTOR, {"hidden": (256,), "minibatch": 2**20, "rollout.length": 2}, 1),
        (VECTOR, {**WHOLE, "rollout.length": 8}, 1),
        (VECTOR, {**WHOLE, "rollout.length": 10_000}, 4),
        (
            VECTOR,
            {**WHOLE, "rollout.episodes": 256},
            4,
        ),  # episodes of at most 100 steps
    ],
)
def test_large_layers_and_minibatches_get_every_core(space, options, expected):
    number, reason = threads.choose(config(**options, num_envs=8), spec(space), 4)
    assert number == expected
    assert reason == f"the network is {'small' if expected == 1 else 'large'}"


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (2, 1), (8, 4)])
def test_asynchronous_training_leaves_cores_to_predictions(cores, expected):
    asynchronous = with_options(RunConfig(algorithm="ga3c", env="x"), {"num_envs": 8})
    number, reason = threads.choose(asynchronous, spec(IMAGE), cores)
    assert number == expected
    assert ("predictions" in reason) == (cores > 1)
    assert threads.choose(asynchronous, spec(VECTOR), cores)[0] == 1


@pytest.mark.parametrize("nested", [False, True])
def test_images_get_every_core(nested):
    space = gymnasium.spaces.Dict({"a": VECTOR, "b": IMAGE}) if nested else IMAGE
    assert threads.choose(config(), spec(space), 4) == (4, "observations are images")


def test_a_users_own_network_gets_every_core_unless_threads_is_set():
    number, reason = threads.choose(config(), spec(VECTOR), 4, own_network=True)
    assert number == 4 and "your own" in reason
    assert threads.choose(config(threads=3), spec(IMAGE), 4) == (3, "set by the user")


def test_workers_and_their_environments_are_reported(monkeypatch):
    monkeypatch.setattr(threads, "apply", lambda number, programs: True)
    monkeypatch.setattr(cpus, "available", lambda: [0, 1, 2])
    envs = [types.SimpleNamespace(num_workers=n) for n in (1, 2)]
    found = threads.configure(config(), spec(VECTOR, 8), envs)
    assert (found.threads, found.cores) == (1, 3)
    assert (found.num_workers, found.envs_per_worker) == (3, 3)
    assert str(found).startswith("1 thread of TensorFlow on 3 cores: ")
    assert str(found).endswith("; 3 workers of up to 3 environments")


def test_collecting_during_an_update_gets_its_own_thread(monkeypatch):
    calls = []
    monkeypatch.setattr(threads, "apply", lambda *args, **kw: calls.append(kw) or True)
    for overlap in (False, True):
        threads.configure(config(overlap=overlap), spec(VECTOR))
    assert calls == [{"programs": 1}, {"programs": 2}]


@pytest.mark.parametrize("workers", [None, 0])
def test_environments_in_this_process_have_no_workers(monkeypatch, workers):
    monkeypatch.setattr(threads, "apply", lambda number, programs: True)
    env = types.SimpleNamespace(num_workers=workers)
    found = threads.configure(config(), spec(VECTOR), [env])
    assert found.envs_per_worker is None
    assert "worker" not in str(found)


def test_threads_that_are_set_too_late_are_reported(monkeypatch):
    monkeypatch.setattr(threads, "apply", lambda number, programs: False)
    found = threads.configure(config(threads=77), spec(VECTOR))
    assert found.threads != 77
    assert "too late for 77" in found.reason


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (3, None)),
        ({"num_workers": 2}, (2, None)),
        ({"envs_per_worker": 2}, (None, 2)),
        ({"num_workers": None}, (None, None)),
    ],
)
def test_num_workers_and_envs_per_worker_replace_each_other(given, expected):
    changed = with_options(config(num_workers=3), given)
    assert (changed.num_workers, changed.envs_per_worker) == expected


def test_threads_are_set_before_the_first_operation_and_not_after():
    code = """if True:
        import tensorflow as tf
        from tfagents_batch.training import threads
        assert threads.apply(1)
        tf.constant(1)
        assert threads.apply(1), "the same number"
        assert not threads.apply(3)
        assert tf.config.threading.get_intra_op_parallelism_threads() == 1
        assert tf.config.threading.get_inter_op_parallelism_threads() == 1
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_config_with_both_settings_of_workers_is_refused():
    both = dataclasses.replace(config(), num_workers=2, envs_per_worker=4)
    with pytest.raises(ValueError, match="num_workers is 2 and envs_per_worker is 4"):
        both.check()
