"""An environment whose actions make four choices, each right or wrong."""

import gymnasium
import numpy as np
from gymnasium import spaces as gs

CONTEXTS = 8


class HiddenTarget(gymnasium.Env):
    """Find the hidden target of each context: four choices of five.

    The reward is the share of right choices, so a random policy has 0.2 a step and the
    best one 1. An episode has 10 steps, each with a new context, which is observed.
    """

    observation_space = gs.Box(0, 1, (CONTEXTS,), np.float32)

    action_space = gs.MultiDiscrete([5] * 4)

    def __init__(self):
        self._targets = np.random.default_rng(7).integers(0, 5, (CONTEXTS, 4))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action):
        right = np.ravel(action) == self._targets[self._context]
        self._steps += 1
        return self._observe(), float(np.mean(right)), False, self._steps == 10, {}

    def _observe(self):
        self._context = int(self.np_random.integers(CONTEXTS))
        return np.eye(CONTEXTS, dtype=np.float32)[self._context]
