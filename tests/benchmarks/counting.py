"""An environment that writes one byte to a file for every step."""

import gymnasium
import numpy as np


class TallyEnv(gymnasium.Env):
    """Environment that observes its step; episodes have ``length`` steps.

    Args:
      path: path of the file to append bytes to.
      length: number of steps of an episode.
    """

    observation_space = gymnasium.spaces.Box(0, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, path: str, length: int = 3):
        self._path, self._length, self._step = path, length, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        with open(self._path, "ab") as file:
            file.write(b".")
        self._step += 1
        observation = np.full(1, self._step, np.float32)
        return observation, 1.0, self._step >= self._length, False, {}
