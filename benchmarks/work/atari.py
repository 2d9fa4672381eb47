"""Atari games for training rows, the same for every contender; without TensorFlow."""

from __future__ import annotations

import gymnasium

from tfagents_batch.envs.adapters import atari


def make(game: str) -> gymnasium.Env:
    """Create a game with the standard preprocessing, see ``envs.adapters.atari``.

    Args:
      game: id, such as ALE/Pong-v5.
    """
    import ale_py

    if game not in gymnasium.registry:
        gymnasium.register_envs(ale_py)
    return atari.make(gymnasium.spec(game), {})
