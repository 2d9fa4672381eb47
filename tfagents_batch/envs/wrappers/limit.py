"""Cut episodes off."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from tfagents_batch.envs.wrappers import layers


class LimitDuration(gymnasium.Wrapper, RecordConstructorArgs):
    """Truncates episodes at step ``max_episode_steps`` and guards their ends.

    The limit sets ``truncated`` and never ``terminated``; an episode that terminates on
    its last step is not also truncated by it, for nothing was cut off.

    Args:
      env: to be limited.
      max_episode_steps: at least 1.

    Raises:
      UserError: for another number, or if ``env`` restarts by itself.
      RuntimeError: from ``step`` before the first reset, and after any end.
    """

    def __init__(self, env: gymnasium.Env, max_episode_steps: int):
        RecordConstructorArgs.__init__(self, max_episode_steps=max_episode_steps)
        gymnasium.Wrapper.__init__(self, env)
        layers.refuse_restarts("LimitDuration", env)
        name = "max_episode_steps"
        self._limit = layers.count("LimitDuration", name, max_episode_steps)
        inner = layers.time_limit(env)
        self._max_episode_steps = min(self._limit, inner or self._limit)
        self._steps: int | None = None  # None between episodes

    @property
    def spec(self):
        """What is registered, with this limit, as Gymnasium's TimeLimit does."""
        spec = super().spec
        if spec is not None:
            spec.max_episode_steps = self._max_episode_steps
        return spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        result = self.env.reset(seed=seed, options=options)
        self._steps = 0
        return result

    def step(self, action: Any):
        if self._steps is None:
            raise RuntimeError(
                "LimitDuration: step() was called before reset(), or after the episode "
                "had ended; call reset() first, or wrap this in AutoReset"
            )
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        if self._steps >= self._limit and not terminated:
            truncated = True
        if terminated or truncated:
            self._steps = None
        return observation, reward, terminated, truncated, info
