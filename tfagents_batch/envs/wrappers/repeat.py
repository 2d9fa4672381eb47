"""Repeat each action."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from tfagents_batch.envs.wrappers import layers


class ActionRepeat(gymnasium.Wrapper, RecordConstructorArgs):
    """Steps ``amount`` times with one action and sums the rewards.

    Stops early when the episode ends. Observation, flags and info are those of the
    last step taken. A time limit beneath is known outside as ``ceil(limit / amount)``.

    Args:
      env: to be stepped.
      amount: inner steps of one outer step, at least 1.

    Raises:
      UserError: for another ``amount``, or if ``env`` restarts by itself.
    """

    def __init__(self, env: gymnasium.Env, amount: int):
        RecordConstructorArgs.__init__(self, amount=amount)
        gymnasium.Wrapper.__init__(self, env)
        layers.refuse_restarts("ActionRepeat", env)
        self._amount = layers.count("ActionRepeat", "amount", amount)
        limit = layers.time_limit(env)
        self._max_episode_steps = None if limit is None else -(-limit // self._amount)

    def step(self, action: Any):
        total = 0.0
        for _ in range(self._amount):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info
