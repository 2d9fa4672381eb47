"""Environments whose seed is an argument of their constructor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

from tfagents_batch.envs.adapters.adapt import made_by


class Reseeded(gymnasium.Env):
    """An environment that is made anew with every seed.

    For those whose constructor takes the seed, as dm_env's do: ``reset(seed=s)`` makes
    a new one, and resets without a seed go on in it.

    Args:
      make: function of the argument below that makes one environment.
      argument: name of that argument; it gets an int in ``[0, 2**31)``.
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
        env = made_by(lambda: self._make(**{self._argument: seed}))
        self.env = env
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.metadata = getattr(env, "metadata", {})
        self.render_mode = getattr(env, "render_mode", None)
