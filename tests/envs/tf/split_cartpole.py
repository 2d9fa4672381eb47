"""CartPole in the graph, whose position and velocities are entries of a Dict."""

from typing import ClassVar

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch.envs.tf.cartpole import FAR, TILTED, CartPole

POSITION = gymnasium.spaces.Box(
    *(x * np.float32([2 * FAR, 2 * TILTED]) for x in (-1, 1))
)
VELOCITY = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)


class Hidden(CartPole):
    """CartPole that shows position and angle only, as an entry of a Dict."""

    entries: ClassVar[dict] = {"position": ([0, 2], POSITION)}

    def __init__(self):
        super().__init__()
        spaces = {name: space for name, (_, space) in self.entries.items()}
        self.observation_space = gymnasium.spaces.Dict(spaces)

    def reset(self, key):
        state, observation = super().reset(key)
        return state, self._split(observation)

    def step(self, state, action, key):
        state, observation, *rest = super().step(state, action, key)
        return state, self._split(observation), *rest

    def _split(self, observation):
        parts = self.entries.items()
        return {name: tf.gather(observation, index) for name, (index, _) in parts}


class Split(Hidden):
    """CartPole that also shows the velocities, as another entry."""

    entries: ClassVar[dict] = Hidden.entries | {"velocity": ([1, 3], VELOCITY)}


class More(Hidden):
    """CartPole with two more entries, sorted before and behind, that no agent saw."""

    entries: ClassVar[dict] = Hidden.entries | {
        "angle": ([2], gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)),
        "speed": ([1, 3, 1], gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)),
    }
