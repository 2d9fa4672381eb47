"""Environment of gym's older interface; workers import it, so it has no TensorFlow."""

import gym
import numpy as np


class Walk(gym.Env):
    """Walk left and right with random pushes, until ``end`` away from the start.

    Returns lists, NumPy bools and float64, as environments for gym 0.21 do.

    Args:
      end: distance from the start at which an episode ends.
      limit: number of steps after which an episode is truncated.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, end=3.0, limit=10**9):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._end, self._limit = end, limit
        self.seed()

    def seed(self, seed=None):
        self._random = np.random.RandomState(seed)
        return [seed]

    def reset(self):
        self._position = self._random.uniform(-0.5, 0.5)
        self._time = 0
        return [self._position, self._time]

    def step(self, action):
        push = self._random.normal(scale=0.1)
        self._position = self._position + (0.5 if action else -0.5) + push
        self._time += 1
        done, info = np.abs(self._position) > self._end, {}
        if self._time >= self._limit:
            done, info = True, {"TimeLimit.truncated": not done}
        return np.array([self._position, self._time]), np.float64(1), done, info

    def render(self, mode="human"):
        return np.zeros((4, 4, 3), np.uint8) if mode == "rgb_array" else None
