"""Environment with any spaces; workers import it, so it has no TensorFlow."""

from __future__ import annotations

import gymnasium
import numpy as np


class SpaceEnv(gymnasium.Env):
    """Environment that observes samples of a space and checks its actions.

    The reward is the sum of the numbers of the action, so a changed action is visible.

    Args:
      observation_space, action_space: any supported spaces.
      length: steps in an episode.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space | None = None,
        length: int = 4,
    ):
        self.observation_space = observation_space
        self.action_space = action_space or gymnasium.spaces.Discrete(2)
        self._length = length
        self._step = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._step = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        self._step += 1
        flat = gymnasium.spaces.flatten(self.action_space, action)
        reward = float(np.asarray(flat, np.float64).sum())
        ended = self._step >= self._length
        return self.observation_space.sample(), reward, ended, False, {}
