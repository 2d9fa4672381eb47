"""MinAtar's games as Gymnasium environments, with the time limit of ours."""

from __future__ import annotations

import gymnasium

LIMIT = 5000  # steps of an episode, as in tfagents_batch.envs.tf.minatar


def make(game: str) -> gymnasium.Env:
    """Create a game of the ``minatar`` package.

    Args:
      game: id, such as MinAtar/Breakout-v1.
    """
    from minatar import gym

    if game not in gymnasium.registry:
        gym.register_envs()
    return gymnasium.make(game, disable_env_checker=True, max_episode_steps=LIMIT)
