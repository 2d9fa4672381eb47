import numpy as np

from gym import core, spaces


class Walk(core.Env):
    """Walk left and right with random pushes, until ``end`` away from the start.

    Returns lists, NumPy bools and float64, as environments for gym 0.21 do.
    """

    metadata = {"render.modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, end=3.0):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._end = end
        self.seed()

    def seed(self, seed=None):
        self._random = np.random.RandomState(seed)
        return [seed]

    def reset(self):
        self._position = self._random.uniform(-0.5, 0.5)
        self._time = 0
        return [self._position, self._time]

    def step(self, action):
        push = self._random.normal(scale=0.1)
        self._position = self._position + (0.5 if action else -0.5) + push
        self._time += 1
        done = np.abs(self._position) > self._end
        return np.array([self._position, self._time]), np.float64(1), done, {}

    def render(self, mode="human"):
        return np.zeros((4, 4, 3), np.uint8) if mode == "rgb_array" else None
