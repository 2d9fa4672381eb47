"""Keep the spaces."""

from __future__ import annotations

import gymnasium
from gymnasium.utils import RecordConstructorArgs


class CacheSpaces(gymnasium.Wrapper, RecordConstructorArgs):
    """Asks for both spaces once, at construction, and keeps them.

    Each look at a space passes through all layers, and some environments make a new one
    each time, which would lose its seed.

    Args:
      env: whose spaces are final.
    """

    def __init__(self, env: gymnasium.Env):
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self.observation_space = env.observation_space
        self.action_space = env.action_space
