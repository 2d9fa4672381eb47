"""Restart a finished environment on its next step."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from tfagents_batch.envs.wrappers import layers


class AutoReset(gymnasium.Wrapper, RecordConstructorArgs):
    """Restarts on the step after the end, for single environments in one's own loop.

    That step ignores its action and returns what ``reset`` returned, with reward 0 and
    neither end flag: ``observation, 0.0, False, False, info``. So no observation is
    lost, not even the last of an episode, and one row in each episode is a restart,
    just as in a batch of ours. The first ``step`` starts the environment if ``reset``
    was not called.

    A batch restarts environments itself, by ``reset``, which also clears what is
    pending here: inside one this wrapper changes nothing and can be left out.

    Args:
      env: outermost layer so far; wrappers that go around this one see no resets.

    Raises:
      UserError: if something beneath restarts already.
    """

    def __init__(self, env: gymnasium.Env):
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        layers.refuse_restarts("AutoReset", env)
        self._over = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        result = self.env.reset(seed=seed, options=options)
        self._over = False
        return result

    def step(self, action: Any):
        if self._over:
            observation, info = self.reset()
            return observation, 0.0, False, False, info
        result = self.env.step(action)
        self._over = bool(result[2] or result[3])
        return result
