"""Environments of works, created by ``env="benchmarks.work.environments:<name>"``.

Games import their packages only when they are created.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium


class WaitingCartPole(gymnasium.Wrapper):
    """CartPole-v1 whose steps wait some milliseconds."""

    def __init__(self, milliseconds: float):
        super().__init__(gymnasium.make("CartPole-v1"))
        self._seconds = milliseconds / 1000

    def step(self, action):
        time.sleep(self._seconds)
        return super().step(action)


def atari(game: str, **kwargs: Any) -> gymnasium.Env:
    """Create a game such as ALE/Pong-v5; ``kwargs`` as in ``envs.wrappers.atari``."""
    import ale_py

    from tfagents_batch.envs.wrappers import atari

    if game not in gymnasium.registry:
        gymnasium.register_envs(ale_py)
    return atari.make(gymnasium.spec(game), kwargs)


def stacked(name: str, max_episode_steps: int) -> gymnasium.Env:
    """Create an environment in our ``standard_stack``; runs in worker processes."""
    from tfagents_batch.envs import wrappers

    env = gymnasium.make(name, disable_env_checker=True)
    return wrappers.standard_stack(env, max_episode_steps=max_episode_steps)


def selected(name: str, indices: list[int], **kwargs: Any) -> gymnasium.Env:
    """Create an environment that shows only some numbers of its observations."""
    from tfagents_batch.envs import wrappers

    env = gymnasium.make(name, disable_env_checker=True, **kwargs)
    return wrappers.SelectEntries(env, indices)
