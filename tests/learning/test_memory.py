"""A task that recurrent networks learn and networks without memory do not."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch.envs.tf.cartpole import FAR, TILTED, CartPole


class HiddenVelocities(CartPole):
    """CartPole that shows position and angle, but not their velocities."""

    def __init__(self):
        super().__init__()
        high = np.array([2 * FAR, 2 * TILTED], np.float32)
        self.observation_space = gymnasium.spaces.Box(-high, high)

    def reset(self, key):
        state, observation = super().reset(key)
        return state, self._hide(observation)

    def step(self, state, action, key):
        state, observation, *rest = super().step(state, action, key)
        return state, self._hide(observation), *rest

    def _hide(self, observation):
        return tf.gather(observation, [0, 2])


def train(core, seed, folder):
    run = tfb.train(
        config="cartpole-hidden",
        env=HiddenVelocities,
        wrappers=[],
        steps=100_000,
        seed=seed,
        eval_every=0,
        logdir=folder,
        settings={
            "network.core": core,
            "sequence_length": None if core == "none" else 32,
        },
    )
    return tfb.evaluate(run.logdir, episodes=100, env=HiddenVelocities).mean_return


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("core", ["gru", "lstm"])
def test_recurrent_networks_solve_cartpole_without_velocities(core, tmp_path):
    returns = [train(core, seed, tmp_path) for seed in range(1, 4)]
    assert min(returns) >= 400, returns


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_network_without_memory_fails_on_cartpole_without_velocities(tmp_path):
    returns = [train("none", seed, tmp_path) for seed in range(1, 4)]
    assert max(returns) < 100, returns


# The zoo's recurrent PPO reaches -218 on Pendulum at 100,000 steps.
REPLAY = pytest.mark.parametrize(
    ("preset", "seeds", "enough", "threshold", "without"),
    [
        ("dqn/tmaze", 3, 3, 3.8, 1.7),
        ("sac/pendulum-hidden", 3, 3, -250, -400),
    ],
)


def returns(preset, seeds, folder, **options):
    for seed in range(1, seeds + 1):
        run = tfb.train(
            config=preset, seed=seed, eval_every=0, logdir=folder, **options
        )
        yield tfb.evaluate(run.logdir, episodes=100).mean_return


@pytest.mark.slow
@pytest.mark.timeout(7200)
@REPLAY
def test_a_replay_algorithm_remembers(
    preset, seeds, enough, threshold, without, tmp_path
):
    found = list(returns(preset, seeds, tmp_path))
    assert sum(x >= threshold for x in found) >= enough, found


@pytest.mark.slow
@pytest.mark.timeout(3600)
@REPLAY
def test_a_replay_algorithm_without_memory_fails(
    preset, seeds, enough, threshold, without, tmp_path
):
    core = {"network.core": "none", "sequence_length": None, "burn_in": None}
    (found,) = returns(preset, 1, tmp_path, settings=core)
    assert found < without
