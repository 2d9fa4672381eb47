"""Environment for tests that observes its own step count; it needs no TensorFlow."""

from __future__ import annotations

import gymnasium
import numpy as np


class CountingEnv(gymnasium.Env):
    """Environment that observes ``(episode, step)``, from 0, so any shift is visible.

    The reward of a step is the number of the step it leads to (1, 2, ...), so an
    episode of length L returns ``L * (L + 1) / 2``.

    Args:
      length: steps in an episode.
      truncate: end episodes by truncation instead of termination.
      offset: number of the first episode, to distinguish environments.
    """

    def __init__(self, length: int = 5, truncate: bool = False, offset: int = 0):
        self.observation_space = gymnasium.spaces.Box(0, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._length = length
        self._truncate = truncate
        self._episode = offset - 1
        self._offset = offset
        self._step = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        self._episode = self._offset if seed is not None else self._episode + 1
        self._step = 0
        return self._observation(), {}

    def step(self, action):
        self._step += 1
        last = self._step >= self._length
        return (
            self._observation(),
            float(self._step),
            last and not self._truncate,
            last and self._truncate,
            {},
        )

    def _observation(self) -> np.ndarray:
        return np.array([self._episode, self._step], np.float32)
