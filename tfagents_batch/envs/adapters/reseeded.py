"""Adapter for environments that take the seed as a constructor argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium

from tfagents_batch.envs.adapters.adapt import create


class Reseeded(gymnasium.Wrapper):
    """Environment that is created again for every seed.

    For environments with a seed in their constructor, as in dm_env: ``reset(seed=s)``
    creates a new one, and resets without a seed continue with it.

    Args:
      make: function that creates one environment from the seed argument.
      argument: name of that argument; its value is an int in ``[0, 2**31)``.
    """

    def __init__(self, make: Callable[..., Any], argument: str):
        self._construct = lambda seed: create(lambda: make(**{argument: seed}))
        super().__init__(self._construct(0))  # for its spaces

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        if seed is not None:
            self.env.close()
            self.env = self._construct(seed)
        return self.env.reset(seed=seed, options=options)
