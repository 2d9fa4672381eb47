"""Your own environment: check it, train on it, evaluate the agent.

A lift has to reach a floor and stop there. Run: python examples/own_environment.py
"""

import gymnasium
import numpy as np

import tfagents_batch as tfb


class Lift(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (2,))
    action_space = gymnasium.spaces.Discrete(3)  # brake or fall, keep, accelerate

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # self.np_random draws all random numbers
        self.distance, self.speed = self.np_random.uniform(-5, 5), 0.0
        return self._observe(), {}

    def step(self, action):
        self.speed = float(np.clip(self.speed + 0.1 * (action - 1), -1, 1))
        self.distance = float(np.clip(self.distance + self.speed, -10, 10))
        arrived = abs(self.distance) < 0.2 and abs(self.speed) < 0.15
        reward = 10.0 * arrived - 0.1 * abs(self.distance)
        return self._observe(), reward, arrived, False, {}

    def _observe(self):
        return np.array([self.distance, self.speed], np.float32)


def make():
    return gymnasium.wrappers.TimeLimit(Lift(), 100)


if __name__ == "__main__":
    print(tfb.check_env(make))
    run = tfb.train("ppo", env=make, steps=100_000, settings={"gamma": 0.98})
    print(tfb.evaluate(run.logdir, episodes=20, env=make).mean_return)
