"""Adapters between peers and the work, tested without the peers."""

import numpy as np

from benchmarks.contenders import ppo_tf_agents
from benchmarks.inside import baselines
from benchmarks.work.training import Training

WORK = Training("CartPole-v1", 4, 8, 2, 16, 64, learning_rate=1e-3, hidden=(5, 6))


def test_peers_get_the_hyperparameters_of_the_work():
    given = baselines.hyperparameters(WORK)
    assert given["learning_rate"] == WORK.learning_rate
    assert (given["n_steps"], given["batch_size"]) == (8, 16)
    assert given["policy_kwargs"]["net_arch"] == {"pi": [5, 6], "vf": [5, 6]}
    assert given["policy_kwargs"]["optimizer_kwargs"] == {"eps": WORK.adam_epsilon}
    assert given["normalize_advantage"] is True


def test_returns_continue_over_rollouts_without_restart_rows():
    sums = np.array([10.0, 0.0])
    reward = np.array([[1.0, 2.0, 99.0, 3.0], [1.0, 1.0, 1.0, 1.0]])
    last = np.array([[False, True, False, False], [False, False, False, True]])
    restart = np.array([[False, False, True, False], [False] * 4])
    assert ppo_tf_agents.finished(sums, reward, restart, last) == [13.0, 4.0]
    np.testing.assert_array_equal(sums, [3, 0])
