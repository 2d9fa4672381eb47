"""Adapter for environments that take the seed as a constructor argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

from tfagents_batch.envs.adapters.adapt import create


class Reseeded(gymnasium.Env):
    """Environment that is created again for every seed.

    For environments with a seed in their constructor, as in dm_env: ``reset(seed=s)``
    creates a new one, and resets without a seed continue with it.

    Args:
      make: function that creates one environment from the seed argument.
      argument: name of that argument; its value is an int in ``[0, 2**31)``.
    """

    def __init__(self, make: Callable[..., Any], argument: str):
        self._make = make
        self._argument = argument
        self._construct(0)  # for its spaces

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        if seed is not None:
            self.env.close()
            self._construct(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        return self.env.step(action)

    def render(self):
        return self.env.render()

    def close(self):
        self.env.close()

    def _construct(self, seed: int) -> None:
        env = create(lambda: self._make(**{self._argument: seed}))
        self.env = env
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.metadata = getattr(env, "metadata", {})
        self.render_mode = getattr(env, "render_mode", None)
