"""Environment whose mask allows no action from its second step on."""

import gymnasium.spaces as gs
import numpy as np

from tfagents_batch.envs.testing import CountingEnv


class MaskedEnv(CountingEnv):
    """A ``CountingEnv`` that observes ``action_mask``; an episode of 2 steps is valid.

    Args:
      length: steps in an episode.
    """

    def __init__(self, length: int):
        super().__init__(length)
        self.observation_space = gs.Dict({"action_mask": gs.MultiBinary(2)})

    def _observation(self):
        return {"action_mask": np.array([0, self._step < 2], np.int8)}
