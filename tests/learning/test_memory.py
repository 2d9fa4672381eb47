"""What a recurrent network learns, and one without memory does not."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch.envs.tf.cartpole import FAR, TILTED, CartPole


class HiddenVelocities(CartPole):
    """Shows position and angle; how fast they change has to be remembered."""

    def __init__(self):
        super().__init__()
        high = np.array([2 * FAR, 2 * TILTED], np.float32)
        self.observation_space = gymnasium.spaces.Box(-high, high)

    def reset(self, key):
        state, observation = super().reset(key)
        return state, self._shown(observation)

    def step(self, state, action, key):
        state, observation, *rest = super().step(state, action, key)
        return state, self._shown(observation), *rest

    def _shown(self, observation):
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
    played = tfb.evaluate(run.logdir, episodes=100, env=HiddenVelocities)
    return played.mean_return


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("core", ["gru", "lstm"])
def test_hidden_velocities_are_remembered(core, tmp_path):
    returns = [train(core, seed, tmp_path) for seed in range(1, 4)]
    assert min(returns) >= 400, returns


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_without_memory_they_are_missed(tmp_path):
    returns = [train("none", seed, tmp_path) for seed in range(1, 4)]
    assert max(returns) < 100, returns
