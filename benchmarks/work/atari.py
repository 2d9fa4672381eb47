"""Atari games for training rows, the same for every contender; without TensorFlow."""

from __future__ import annotations

from typing import Any

import gymnasium

from tfagents_batch.envs.adapters import atari


def make(game: str, **kwargs: Any) -> gymnasium.Env:
    """Create a game with a preprocessing, see ``envs.adapters.atari``.

    Args:
      game: id, such as ALE/Pong-v5.
      **kwargs: arguments of ``atari.make``.
    """
    import ale_py

    if game not in gymnasium.registry:
        gymnasium.register_envs(ale_py)
    return atari.make(gymnasium.spec(game), kwargs)
