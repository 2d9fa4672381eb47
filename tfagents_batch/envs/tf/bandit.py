"""A bandit with several arms, the smallest possible task."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.tf import drawing
from tfagents_batch.errors import UserError


class Bandit:
    """Bandit with episodes of one step: an arm pays its mean reward plus noise.

    The observation is always 1 (Sutton and Barto, 2018, chapter 2).

    Args:
      means: mean reward of each arm.
      noise: standard deviation of rewards.
    """

    max_episode_steps = 1
    render_fps = 2

    def __init__(self, means: Sequence[float] = (0.1, 0.5, 0.9), noise: float = 0.1):
        if len(means) < 2:
            raise UserError(f"means has length {len(means)}; expected at least 2 arms")
        self.means, self.noise = tuple(map(float, means)), noise
        self.observation_space = gymnasium.spaces.Box(1.0, 1.0, (1,))
        self.action_space = gymnasium.spaces.Discrete(len(means))

    def reset(self, key):
        return tf.constant(-1), tf.ones([1])

    def step(self, state, action, key):
        mean = tf.gather(tf.constant(self.means), action)
        reward = mean + self.noise * seeds.normal([], key)
        return action, tf.ones([1]), reward, tf.constant(True)

    def render(self, state):
        colors = np.full([1, len(self.means), 3], 200, np.uint8)
        colors[0, ::2] = 225  # alternate colors separate the arms
        if state >= 0:
            colors[0, int(state)] = (60, 90, 200)
        return drawing.cells(colors, 40)
