"""dm_env environment for tests; workers import this file, so it has no TensorFlow."""

import dm_env
import numpy as np
from dm_env import specs


def walk(seed=None, length=5, discount=1.0, last_discount=0.0, change=None):
    """Create a random walk.

    Args:
      seed: seed of its generator.
      length: number of steps of an episode.
      discount, last_discount: discounts of MID steps and of the LAST step.
      change: function of a time step that returns another.
    """

    class Walk(dm_env.Environment):
        def __init__(self):
            self._random = np.random.default_rng(seed)
            self._step = 0
            self.closed = False

        def observation_spec(self):
            return {
                "position": specs.Array((2,), np.float64),
                "step": specs.DiscreteArray(length + 1),
                "flags": [specs.Array((2,), bool), specs.Array((), bool)],
            }

        def action_spec(self):
            return specs.BoundedArray((), np.int64, 1, 3)

        def reset(self):
            self._step = 0
            return self._changed(dm_env.restart(self._observation()))

        def step(self, action):
            assert isinstance(action, np.ndarray) and action.dtype == np.int64
            assert 1 <= action <= 3
            self._step += 1
            reward = np.array(float(action))
            if self._step < length:
                timestep = dm_env.transition(reward, self._observation(), discount)
            elif last_discount:
                timestep = dm_env.truncation(reward, self._observation(), last_discount)
            else:
                timestep = dm_env.termination(reward, self._observation())
            return self._changed(timestep)

        def close(self):
            self.closed = True

        def _observation(self):
            flags = [np.array([True, self._step > 1]), np.array(self._step > 0)]
            position = self._random.normal(size=2)
            return {"position": position, "step": self._step, "flags": flags}

        def _changed(self, timestep):
            return timestep if change is None else change(timestep)

    return Walk()
