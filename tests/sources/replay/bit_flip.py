"""Bits to flip until they equal a goal, from the paper on HER; without TensorFlow."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces as gs


class BitFlip(gymnasium.Env):
    """N bits; an action flips one. The reward is 0 at the goal, the end, else -1."""

    def __init__(self, bits: int = 6):
        self._size = bits
        bit = gs.Box(0, 1, (bits,), np.float32)
        names = "observation", "achieved_goal", "desired_goal"
        self.observation_space = gs.Dict(dict.fromkeys(names, bit))
        self.action_space = gs.Discrete(bits)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        draw = self.np_random.integers(2, size=(2, self._size))
        self._bits, self._goal = draw.astype(np.float32)
        return self._observe(), {}

    def step(self, action):
        self._bits = self._bits.copy()
        self._bits[action] = 1 - self._bits[action]
        reward = float(self.compute_reward(self._bits, self._goal, {}))
        reached = reward == 0
        return self._observe(), reward, reached, False, {"is_success": reached}

    def compute_reward(self, achieved, desired, info):
        return -(achieved != desired).any(-1).astype(np.float32)

    def _observe(self):
        seen, goal = self._bits, self._goal
        return {"observation": seen, "achieved_goal": seen, "desired_goal": goal}


def make(bits: int = 6) -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(BitFlip(bits), bits)
