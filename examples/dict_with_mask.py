"""A Dict observation with an action mask: only orders that fit are allowed.

A shop orders 0 to 4 items a day for an unknown demand. Run:
python examples/dict_with_mask.py
"""

import gymnasium
import numpy as np
from gymnasium import spaces

import tfagents_batch as tfb

ROOM, DAYS = 8, 56


class Shop(gymnasium.Env):
    observation_space = spaces.Dict(
        stock=spaces.Box(0.0, ROOM, (1,)),
        weekday=spaces.Discrete(7),
        action_mask=spaces.MultiBinary(5),  # one entry for each action
    )
    action_space = spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.day, self.stock = 0, 0
        return self._observe(), {}

    def step(self, order):
        demand = self.np_random.poisson(3.0 if self.day % 7 >= 5 else 1.0)
        sold = min(self.stock + int(order), demand)
        self.stock, self.day = self.stock + int(order) - sold, self.day + 1
        reward = 1.0 * sold - 0.1 * self.stock
        return self._observe(), reward, self.day == DAYS, False, {}

    def _observe(self):
        fits = np.array([self.stock + x <= ROOM for x in range(5)], np.int8)
        stock = np.array([self.stock], np.float32)
        return {"stock": stock, "weekday": self.day % 7, "action_mask": fits}


if __name__ == "__main__":
    run = tfb.train("ppo", env=Shop, steps=200_000)
    print(tfb.evaluate(run.logdir, episodes=100, env=Shop).mean_return)
