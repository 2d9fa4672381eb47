"""Adapters between peers and the work, tested without the peers."""

import dataclasses
import sys
import types

import gymnasium
import numpy as np
import pytest

from benchmarks.contenders import batch_ppo, tf_agents
from benchmarks.inside import old_tensorflow, sb3, session
from benchmarks.measure import rows
from benchmarks.work.works import Training

PRESET = rows.TRAINING["ppo-batch-ppo-pendulum"].work
WORK = Training("CartPole-v1", 4, 8, 2, 16, 64, learning_rate=1e-3, hidden=(5, 6))


def test_peers_get_the_hyperparameters_of_the_work():
    given = sb3.on_policy_arguments(WORK)
    assert given["learning_rate"] == WORK.learning_rate
    assert (given["n_steps"], given["batch_size"]) == (8, 16)
    assert given["policy_kwargs"]["net_arch"] == {"pi": [5, 6], "vf": [5, 6]}
    assert given["policy_kwargs"]["optimizer_kwargs"] == {"eps": WORK.adam_epsilon}
    assert given["normalize_advantage"] is True


class Model:
    """Peer without learning, which draws each minibatch of an iteration once."""

    def __init__(self):
        self.num_timesteps = self.updates = 0
        self.rollout_buffer = types.SimpleNamespace(get=self.get)

    def set_logger(self, logger):
        pass

    def get_env(self):
        return types.SimpleNamespace(close=lambda: None)

    def get(self, batch_size=None):
        yield from [types.SimpleNamespace(advantages=[0.0] * 16)] * 2

    def learn(self, steps, log_interval, reset_num_timesteps):
        self.num_timesteps += steps
        for _ in self.rollout_buffer.get(batch_size=16):
            self.updates += 1
        self.ep_info_buffer.append({"r": 1.0})


def test_peers_count_their_gradient_steps_and_the_rows_of_each(monkeypatch):
    for part in ("", ".common", ".common.logger"):
        module = types.ModuleType(f"stable_baselines3{part}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
    module.Logger = lambda *_: None
    work, model = dataclasses.replace(WORK, seconds=0.0, blocks=3), Model()
    learning = sb3.on_policy(work, model, lambda: 57, lambda: model.updates, {}, {})
    found = session.run(lambda: None, lambda work: learning, work)
    assert found["count"] == {"compile": 0, "warm_up": 32, "steady": 96}
    assert found["same"]["gradient_steps_an_iteration"] == 2
    assert found["same"]["samples_a_gradient_step"] == 16
    assert found["same"]["parameters"] == 57
    assert found["returns"] == 1


def test_returns_continue_over_rollouts_without_restart_rows():
    sums = np.array([10.0, 0.0])
    reward = np.array([[1.0, 2.0, 99.0, 3.0], [1.0, 1.0, 1.0, 1.0]])
    last = np.array([[False, True, False, False], [False, False, False, True]])
    restart = np.array([[False, False, True, False], [False] * 4])
    assert tf_agents.finished(sums, reward, restart, last) == [13.0, 4.0]
    np.testing.assert_array_equal(sums, [3, 0])


def test_the_row_of_batch_ppo_equals_the_published_preset():
    given = batch_ppo.settings(PRESET, None)
    assert PRESET.env == "Pendulum-v1"
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
    chunks = PRESET.episodes * PRESET.rollout_length // PRESET.chunk_length
    assert PRESET.gradient_steps(PRESET.batch) == 25 * chunks // PRESET.chunks == 150
    # At most one restart row per episode does not reduce the number of steps.
    assert PRESET.gradient_steps(PRESET.batch - PRESET.episodes) == 150


class Ending(gymnasium.Env):
    """Environment with the given flags at its first step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, *flags):
        self.flags = flags

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
