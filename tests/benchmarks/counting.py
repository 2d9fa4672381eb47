"""An environment that writes one byte to a file for every step."""

from __future__ import annotations

import os

import gymnasium
import numpy as np


class TallyEnv(gymnasium.Env):
    """Environment that observes its step; episodes have ``length`` steps.

    Args:
      path: path of the file to append bytes to.
      length: number of steps of an episode.
    """

    def __init__(self, path: str, length: int = 3):
        self.observation_space = gymnasium.spaces.Box(0, np.inf, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._length = length
        self._step = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        os.write(self._file, b".")
        self._step += 1
        observation = np.full(1, self._step, np.float32)
        return observation, 1.0, self._step >= self._length, False, {}

    def close(self):
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
