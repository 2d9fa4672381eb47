"""Adapters between peers and the work, tested without the peers."""

import sys
import types

import numpy as np

from benchmarks.contenders import batch_ppo, tf_agents
from benchmarks.inside import sb3, session
from benchmarks.measure import rows
from tests.benchmarks.test_off_policy import TINY as WORK
from tests.benchmarks.test_training import TINY

PRESET = rows.ROWS["ppo-batch-ppo-pendulum"].work


def test_peers_get_the_hyperparameters_of_the_work():
    given = sb3.arguments(TINY, TINY.num_envs)
    assert given["learning_rate"] == TINY.learning_rate
    assert (given["n_steps"], given["batch_size"]) == (32, 16)
    assert given["policy_kwargs"]["net_arch"] == {"pi": [4], "vf": [4]}
    assert given["policy_kwargs"]["optimizer_kwargs"] == {"eps": TINY.adam_epsilon}
    assert given["normalize_advantage"] is True
    work = rows.ROWS["dqn-cartpole"].work
    given = sb3.arguments(work, 1)
    assert (given["learning_rate"], given["gamma"]) == (1e-4, 0.99)
    assert (given["batch_size"], given["tau"]) == (32, 1.0)
    # Stable-Baselines3's defaults:
    assert (given["buffer_size"], given["learning_starts"]) == (1_000_000, 100)
    assert (given["train_freq"], given["gradient_steps"]) == (4, 1)
    assert given["target_update_interval"] == 10_000
    ends = given["exploration_initial_eps"], given["exploration_final_eps"]
    assert ends == (1.0, 0.05)
    assert given["policy_kwargs"]["net_arch"] == [64, 64]


class Model:
    """Stable-Baselines3's DQN without learning, which counts its updates."""

    n_envs, learning_rate, gamma, tau = 2, 1e-4, 0.99, 1.0
    batch_size = WORK.batch_size
    train_freq = types.SimpleNamespace(frequency=2)
    get_env = staticmethod(lambda: types.SimpleNamespace(close=lambda: None))
    set_logger = staticmethod(lambda logger: None)
    num_timesteps = updates = 0

    def learn(self, steps, log_interval, reset_num_timesteps):
        end = self.num_timesteps + steps
        while self.num_timesteps < end:
            self.num_timesteps += 4
            assert self.exploration_schedule(0) == WORK.exploration(self.num_timesteps)
            self.updates += self.num_timesteps > WORK.warmup_steps
        self.ep_info_buffer.append({"r": 1.0})


def test_peers_count_their_updates_in_the_measured_blocks(monkeypatch):
    for part in ("", ".common", ".common.logger"):
        module = types.ModuleType(f"stable_baselines3{part}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
    module.Logger = lambda *_: None
    model = Model()
    learning = sb3.Learning(
        WORK, model, 57, lambda: {"values": model.updates}, {}, {}, target_calls=20
    )
    result = session.run(lambda: None, lambda work: learning, WORK)
    assert result["count"] == {"warm_up": 52, "steady": 96}
    same = result["same"]
    assert same["updates_per_env_step"] == {"values": "1/4"}
    assert (same["samples_an_update"], same["parameters"]) == (8, 57)
    assert same["updates_between_targets"] == 10
    assert result["own"]["env_steps_between_trainings"] == 4
    assert result["returns"] == 1


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
    # Chunks take as many gradient steps as shuffled rows, also with restart rows.
    chunks = PRESET.episodes * PRESET.rollout_length // PRESET.chunk_length
    assert PRESET.gradient_steps(PRESET.batch) == 25 * chunks // PRESET.chunks == 150
    assert PRESET.gradient_steps(PRESET.batch - PRESET.episodes) == 150
