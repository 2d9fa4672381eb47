"""An environment that shows where each of its transitions went.

This module is without TensorFlow, which workers would import with it.
"""

import os
import time

import gymnasium
import numpy as np
from gymnasium import spaces as gs


class Counting(gymnasium.Env):
    """Observes the steps of its life and of the episode; rewards 10 life + action.

    Args:
      seconds: duration of a step.
      gate: path without which a step does not end.
      life: steps of its life at the start.
    """

    observation_space = gs.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gs.Discrete(3)

    def __init__(self, seconds=0.0, gate=None, life=0):
        self._life, self._steps, self._seconds, self._gate = life, 0, seconds, gate

    def _observe(self):
        return np.float32([self._life, self._steps])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action):
        time.sleep(self._seconds)
        deadline = time.monotonic() + 60
        while self._gate and not os.path.exists(self._gate):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        reward = 10.0 * self._life + int(action)
        self._life, self._steps = self._life + 1, self._steps + 1
        ended = self._steps == 5
        return self._observe(), reward, ended, False, {}
