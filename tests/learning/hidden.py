"""CartPole that cannot be balanced by what is seen at the moment."""

import gymnasium
import numpy as np
import tensorflow as tf

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
