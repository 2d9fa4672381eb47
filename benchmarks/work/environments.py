"""Environments of works, created by ``env="benchmarks.work.environments:<name>"``.

Games import their packages only when they are created.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium


class Waiting(gymnasium.Wrapper):
    """Wait some milliseconds before each step of an environment."""

    def __init__(self, constructor: Callable[[], gymnasium.Env], milliseconds: float):
        super().__init__(constructor())
        self._seconds = milliseconds / 1000

    def step(self, action):
        time.sleep(self._seconds)
        return super().step(action)


def waiting_cartpole(milliseconds: float) -> gymnasium.Env:
    """Create CartPole-v1 whose steps wait."""
    return Waiting(lambda: gymnasium.make("CartPole-v1"), milliseconds)


def atari(game: str, **kwargs: Any) -> gymnasium.Env:
    """Create a game such as ALE/Pong-v5; ``kwargs`` as in ``envs.adapters.atari``."""
    import ale_py

    from tfagents_batch.envs.adapters import atari

    if game not in gymnasium.registry:
        gymnasium.register_envs(ale_py)
    return atari.make(gymnasium.spec(game), kwargs)


def stacked(name: str, max_episode_steps: int) -> gymnasium.Env:
    """Create an environment in our ``standard_stack``; runs in worker processes."""
    from tfagents_batch.envs import wrappers

    env = gymnasium.make(name, disable_env_checker=True)
    return wrappers.standard_stack(env, max_episode_steps=max_episode_steps)
