"""Action values of agents against the exact ones of a small gridworld."""

import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tests.learning import gridworld
from tfagents_batch.types import TimeStep


def test_exact_values_are_those_of_two_known_policies():
    best, uniform = (
        gridworld.action_values(),
        gridworld.action_values(gridworld.uniform()),
    )
    np.testing.assert_allclose(best[0], [0.425713, 0.472499, 0.425726, 0.471182], 1e-5)
    expected = [0.029917, 0.036119, 0.029977, 0.030355]
    np.testing.assert_allclose(uniform[0], expected, 1e-4)


def values(agent, features: bool, shift: int) -> np.ndarray:
    """Return the agent's Q of all moves in all cells, f32 ``[25, 4]``."""
    env = gridworld.PossibleActions(features)
    seen = [env.observe(tf.constant(cell), shift) for cell in range(gridworld.CELLS)]
    observation = tf.nest.map_structure(lambda *x: tf.stack(x), *seen)
    zeros, off = tf.zeros([gridworld.CELLS]), tf.zeros([gridworld.CELLS], tf.bool)
    step = TimeStep(observation, zeros, off, off, off, {})
    return np.roll(agent._policy.network(step)[0].q.numpy(), shift, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "features"),
    [("max", True), ("sarsa", False)],
    ids=["features of actions", "sarsa"],
)
def test_values_of_random_play_are_close_to_the_exact_ones(target, features, tmp_path):
    """SARSA learns the values of the random policy, the others those of the best."""
    env = gridworld.PossibleActions(features)
    run = tfb.train(
        "dqn",
        env=env,
        steps=20_000,
        seed=1,
        num_envs=16,
        replay={"capacity": 20_000},
        eval_every=0,
        logdir=tmp_path,
        settings={
            "n_step": 1,
            "target": target,
            "gamma": gridworld.GAMMA,
            "epsilon": 1.0,
            "learning_rate": "linear(2e-3, 0)",
            "batch_size": 128,
            "target_every": 100,
            "target_tau": 1.0,
            "network": {"hidden": (64, 64)},
            "histograms": False,
        },
    )
    expected = gridworld.action_values(
        gridworld.uniform() if target == "sarsa" else None
    )
    agent = tfb.load(run.logdir, env=env)
    rows = gridworld.POSSIBLE & gridworld.ACTING[:, np.newaxis]
    for shift in range(gridworld.ACTIONS if features else 1):
        error = np.abs(values(agent, features, shift) - expected)
        assert error[rows].mean() <= 0.02, error
