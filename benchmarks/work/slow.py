"""Environments with slow steps, for rows about stepping many of them."""

from __future__ import annotations

import time

import gymnasium
import numpy as np


class Slow(gymnasium.Env):
    """Environment with steps that compute or wait for a given time.

    Args:
      milliseconds: time of a step: processor time if ``busy``, else wall time.
      busy: whether a step computes instead of waiting.
    """

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, milliseconds: float, busy: bool):
        self._seconds = milliseconds / 1000
        self._busy = busy

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observation(), {}

    def step(self, action):
        if self._busy:
            end = time.thread_time() + self._seconds
            while time.thread_time() < end:
                pass
        else:
            time.sleep(self._seconds)
        return self._observation(), 1.0, False, False, {}

    def _observation(self) -> np.ndarray:
        return self.np_random.random(4, np.float32)


class Waiting(gymnasium.Wrapper):
    """Wait before each step.

    Args:
      env: environment.
      milliseconds: time of waiting.
    """

    def __init__(self, env: gymnasium.Env, milliseconds: float):
        super().__init__(env)
        self._seconds = milliseconds / 1000

    def step(self, action):
        time.sleep(self._seconds)
        return super().step(action)
