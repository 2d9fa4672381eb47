"""Atari games for training rows, the same code for every contender; no TensorFlow."""

from __future__ import annotations

import gymnasium

from tfagents_batch.envs.adapters import atari


def make(game: str) -> gymnasium.Env:
    """A game of ale-py with the standard preprocessing, see ``envs.adapters.atari``.

    Args:
      game: id, such as ALE/Pong-v5.
    """
    import ale_py

    if game not in gymnasium.registry:
        gymnasium.register_envs(ale_py)
    return atari.make(gymnasium.spec(game), {})
