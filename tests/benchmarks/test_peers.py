"""What lies between peers and the work they are given, where it needs no peer."""

import envpool
import numpy as np
import pytest

from benchmarks.contenders import ppo_envpool_sb3, ppo_tf_agents
from benchmarks.inside import baselines
from benchmarks.training import Training

WORK = Training("CartPole-v1", 4, 8, 2, 16, 64, learning_rate=1e-3, hidden=(5, 6))


class Pool:
    """Answers a step with what it was given; restarts come last row first.

    Args:
      terminated, truncated: ``[B]``, of every step.
    """

    def __init__(self, terminated, truncated):
        self.ends = np.array(terminated), np.array(truncated)
        self.observation = np.arange(1.0, 1.0 + len(terminated))[:, None]
        self.restarted = []

    def step(self, actions):
        return self.observation, np.float32(actions), *self.ends, {}

    def reset(self, rows):
        self.restarted = rows[::-1]
        return -self.observation[self.restarted], {"env_id": self.restarted}


def play(terminated, truncated):
    pool = Pool(terminated, truncated)
    return pool, *ppo_envpool_sb3.play(pool, np.arange(len(terminated)))


def test_a_step_that_ends_nothing_restarts_nothing():
    pool, observation, reward, done, infos = play([False, False], [False, False])
    assert not len(pool.restarted) and not done.any()
    np.testing.assert_array_equal(observation, [[1], [2]])
    np.testing.assert_array_equal(reward, [0, 1])
    assert infos == [{}, {}]


def test_who_is_over_shows_a_first_observation_and_keeps_the_last_in_its_info():
    pool, observation, _, done, infos = play([True, False, True], [False] * 3)
    np.testing.assert_array_equal(observation, [[-1], [2], [-3]])
    np.testing.assert_array_equal(done, [True, False, True])
    assert [info.get("terminal_observation") for info in infos] == [[1], None, [3]]
    assert sorted(pool.restarted) == [0, 2]


def test_the_pools_own_arrays_stay_as_they_are():
    pool, *_ = play([True, True], [False, False])
    np.testing.assert_array_equal(pool.observation, [[1], [2]])


def test_only_who_was_cut_off_and_did_not_fail_is_called_truncated():
    *_, infos = play([True, False, True], [False, True, True])
    assert [info["TimeLimit.truncated"] for info in infos] == [False, True, False]


def test_every_step_of_a_real_pool_is_a_transition():
    limit = 7  # steps, fewer than a pole takes to fall
    with pytest.warns(UserWarning, match="precision lowered"):
        pool = envpool.make(
            "CartPole-v1", env_type="gymnasium", num_envs=3, max_episode_steps=limit
        )
        pool.reset()
    for t in range(1, 3 * limit + 1):
        actions = np.full(3, t % 2)
        observation, reward, done, infos = ppo_envpool_sb3.play(pool, actions)
        np.testing.assert_array_equal(reward, 1)
        assert done.all() == done.any() == (t % limit == 0)
        if done.all():
            assert np.abs(observation).max() <= 0.05
            assert all(info["TimeLimit.truncated"] for info in infos)
            lasts = np.stack([info["terminal_observation"] for info in infos])
            assert np.abs(lasts - observation).max() > 0.01
    pool.close()


def test_peers_are_given_the_works_hyperparameters():
    given = baselines.hyperparameters(WORK)
    assert given["learning_rate"] == WORK.learning_rate
    assert (given["n_steps"], given["batch_size"]) == (8, 16)
    assert given["policy_kwargs"]["net_arch"] == {"pi": [5, 6], "vf": [5, 6]}
    assert given["policy_kwargs"]["optimizer_kwargs"] == {"eps": WORK.adam_epsilon}
    assert given["normalize_advantage"] is True


def test_networks_that_peers_are_not_given_are_refused():
    work = Training("CartPole-v1", 4, 8, 2, 16, 64, network="nature_cnn")
    with pytest.raises(ValueError, match="nature_cnn"):
        baselines.hyperparameters(work)


def test_returns_go_on_over_rollouts_and_leave_out_restart_rows():
    sums = np.array([10.0, 0.0])
    reward = np.array([[1.0, 2.0, 99.0, 3.0], [1.0, 1.0, 1.0, 1.0]])
    last = np.array([[False, True, False, False], [False, False, False, True]])
    restart = np.array([[False, False, True, False], [False] * 4])
    assert ppo_tf_agents.finished(sums, reward, restart, last) == [13.0, 4.0]
    np.testing.assert_array_equal(sums, [3, 0])
