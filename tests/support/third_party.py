"""Stand-ins for environments and wrappers of other packages.

Importing this module registers the ids, as such packages do. Workers import it too, so
it has no TensorFlow.
"""

from __future__ import annotations

import collections

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tests.support.space_env import SpaceEnv

IMAGE = gs.Box(0, 255, (8, 8, 3), np.uint8)
BoxSpace = collections.namedtuple("BoxSpace", "low, high, shape, dtype")


def mission() -> gymnasium.Env:
    """Return an environment with a text in its Dict, like those of MiniGrid."""
    space = {"image": IMAGE, "direction": gs.Discrete(4), "mission": gs.Text(9)}
    return SpaceEnv(gs.Dict(space))


def objectives() -> gymnasium.Env:
    """Return an environment with two rewards, like those of MO-Gymnasium."""
    return _Objectives(SpaceEnv(gs.Box(-1, 1, (3,))))


class _Objectives(gymnasium.Wrapper):
    def step(self, action):
        observation, _, *ends = self.env.step(action)
        return observation, np.array([1.0, 10.0]), *ends


class Agents:
    """An environment of two agents, like those of PettingZoo."""

    possible_agents = "left", "right"

    def observation_space(self, agent):
        return gs.Discrete(3)

    action_space = observation_space

    def reset(self, seed=None, options=None):
        return dict.fromkeys(self.possible_agents, 0)

    def step(self, actions):
        raise NotImplementedError


class OldSpaces:
    """An environment with spaces of its own, like that of Crafter without gym."""

    observation_space = BoxSpace(0, 255, (8, 8, 3), np.uint8)
    action_space = collections.namedtuple("DiscreteSpace", "n")(17)

    def reset(self):
        return np.zeros((8, 8, 3), np.uint8)

    def step(self, action):
        return self.reset(), 0.0, False, {}


class Picture(gymnasium.ObservationWrapper):
    """Observe the image only, as a wrapper of MiniGrid does."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = env.observation_space["image"]

    def observation(self, observation):
        return observation["image"]


class Weighed(gymnasium.Wrapper):
    """Weigh the rewards, as a wrapper of MO-Gymnasium does."""

    def __init__(self, env, weight: np.ndarray = None):
        super().__init__(env)
        self._weight = np.ones(2) if weight is None else weight
        assert self._weight.shape == (2,), "expected two weights"

    def step(self, action):
        observation, reward, *ends = self.env.step(action)
        return observation, np.dot(reward, self._weight), *ends


def nothing(env) -> None:
    """Return nothing, which is a mistake in a wrapper."""


gymnasium.register("Mission-v1", entry_point=mission)
gymnasium.register("Versionless", entry_point=mission)
