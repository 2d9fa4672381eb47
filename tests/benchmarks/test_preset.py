"""The work of batch-ppo's presets, mostly tested without batch-ppo."""

import dataclasses
import os

import gymnasium
import numpy as np
import pytest

from benchmarks.contenders import ppo_batch_ppo, ppo_ours_preset
from benchmarks.inside import old_tensorflow, session
from benchmarks.measure import duel, process, rows
from tfagents_batch.configs import PRESETS

PYTHONS = {"batch_ppo": os.environ.get("TFAGENTS_BATCH_BATCH_PPO_PYTHON", "")}
ROW = rows.TRAINING["ppo-batch-ppo-pendulum"]
TINY = dataclasses.replace(
    ROW.work,
    num_envs=2,
    rollout_length=20,
    epochs=2,
    minibatch_size=10,
    chunk_length=5,
    steps=200,
    hidden=(6, 5),
    num_workers=0,
    seconds=0.0,
    blocks=2,
)


def test_the_row_equals_the_published_preset():
    given = ppo_batch_ppo.settings(ROW.work, None)
    assert ROW.work.env == "Pendulum-v1"
    assert {k: given[k] for k in given if k != "env"} == {
        "max_length": 200,
        "num_agents": 30,
        "normalize_ranges": True,
        "update_every": 30,
        "update_epochs": 25,
        "batch_size": 20,
        "chunk_length": 50,
        "learning_rate": 1e-4,
        "discount": 0.995,
        "policy_layers": (200, 100),
        "value_layers": (200, 100),
        "init_std": 0.35,
        "kl_target": 0.01,
        "kl_cutoff_factor": 2.0,
        "kl_cutoff_coef": 1000.0,
        "kl_init_penalty": 1.0,
    }


def test_chunks_take_as_many_gradient_steps_as_shuffled_rows():
    work = ROW.work
    chunks = work.episodes * work.rollout_length // work.chunk_length
    assert work.gradient_steps(work.batch) == work.epochs * chunks // work.chunks == 150
    # At most one restart row per episode does not reduce the number of steps.
    assert work.gradient_steps(work.batch - work.episodes) == 150


@pytest.fixture(scope="module")
def trained():
    return session.run(lambda: None, ppo_ours_preset.start, TINY)


def test_ours_does_the_work_of_the_preset_or_declares_differences(trained):
    same = trained["same"]
    assert same["environment"]["wrappers"] == [
        *("ClipAction", "RangeNormalize"),
        *("LimitDuration", "TimeLimit", "OrderEnforcing"),
    ]
    # Two towers 3 -> 6 -> 5, a mean with its standard deviation, and a value.
    towers = 2 * ((3 * 6 + 6) + (6 * 5 + 5))
    assert same["parameters"] == towers + (5 + 1) + 1 + (5 + 1)
    assert same["gradient_steps_an_iteration"] == 2 * 40 // 10
    assert same["samples_a_gradient_step"] == 10
    assert same["objective"] == ppo_batch_ppo.OBJECTIVE
    assert {*trained["differs"]} == {"minibatches"}  # the approximation


@pytest.mark.parametrize("name", ["ppo_batch_ppo", "ppo_batch_ppo_parallel_one"])
def test_batch_ppo_does_the_same_work_if_it_is_installed(trained, name):
    if process.python_of("batch_ppo", PYTHONS) is None:
        pytest.skip("no batch-ppo (benchmarks.make_environments --batch_ppo)")
    theirs = process.run_contender(name, dataclasses.asdict(TINY), 250, PYTHONS)
    assert not isinstance(theirs, process.Failure), str(theirs)
    assert theirs["count"]["steady"] == TINY.blocks * TINY.batch
    assert theirs["own"]["workers"] == (2 if "parallel" in name else 0)
    duel._same(name, trained, theirs)  # raises for undeclared differences
    assert np.isfinite(theirs["returns"])


def test_our_preset_can_replace_the_approximation():
    work = dataclasses.replace(ROW.work, seed=7, num_workers=2)
    config = ppo_ours_preset._config(work, "off", "pendulum")
    preset = PRESETS["pendulum"]()
    assert config.settings == preset.settings
    assert config.source == preset.source
    assert (config.seed, config.compile, config.eval_every) == (7, "off", 0)


# ---- replacements of TensorFlow 1 and gym


class Ending(gymnasium.Env):
    """Environment with the given flags at its first step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, terminated, truncated):
        self.flags = terminated, truncated

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.ones(1, np.float32), 2.0, *self.flags, {"key": 3}


@pytest.mark.parametrize("terminated", [False, True])
@pytest.mark.parametrize("truncated", [False, True])
def test_old_environments_have_one_flag_and_one_observation(terminated, truncated):
    env = old_tensorflow.OldEnv(Ending(terminated, truncated))
    np.testing.assert_array_equal(env.reset(), [0])
    observation, reward, done, info = env.step(0)
    np.testing.assert_array_equal(observation, [1])
    assert (reward, info) == (2.0, {"key": 3})
    assert done is (terminated or truncated)
    assert env.action_space == Ending.action_space
