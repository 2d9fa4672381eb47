"""Restart a finished environment on its next step."""

from __future__ import annotations

import gymnasium

from tfagents_batch.envs.wrappers import layers


class AutoReset(gymnasium.wrappers.Autoreset):
    """Gymnasium's ``Autoreset`` that also starts an environment that was never reset.

    For single environments in one's own loop. The step after the end ignores its action
    and returns what ``reset`` returned, with reward 0 and neither end flag:
    ``observation, 0.0, False, False, info``. So no observation is lost, not even the
    last of an episode, and one row in each episode is a restart, just as in a batch of
    ours. The first ``step`` starts the environment if ``reset`` was not called.

    A batch restarts environments itself, by ``reset``, which also clears what is
    pending here: inside one this wrapper changes nothing and can be left out.

    Args:
      env: outermost layer so far; wrappers that go around this one see no resets.

    Raises:
      UserError: if something beneath restarts already.
    """

    def __init__(self, env: gymnasium.Env):
        layers.refuse_restarts("AutoReset", env)
        super().__init__(env)
        self.autoreset = True  # until it is reset or started
