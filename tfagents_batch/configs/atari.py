"""Atari (extra ``atari``), with the settings of rl-baselines3-zoo.

But for three things: the range of ratios stays as wide as it is at the start, rewards
are divided by the deviation of returns where they are cut to their sign there, and a
lost life ends no episode, so that returns are scores.
"""

from __future__ import annotations

import functools

from tfagents_batch.algorithms import ppo
from tfagents_batch.schedules import Constant, Linear
from tfagents_batch.training.config import Config


def game(name: str) -> Config:
    """A game of Atari for 10 million steps, 40 million frames.

    Args:
      name: as its environment is named, ``Pong`` for example.
    """
    return Config(
        env=f"ALE/{name}-v5",
        steps=10_000_000,
        num_envs=8,
        rollout_length=128,
        settings=ppo.Config(
            clip_ratio=0.1,
            learning_rate=Linear(2.5e-4, 0.0),
            epochs=4,
            minibatch_size=256,
            entropy_scale=Constant(0.01),
        ),
    )


PRESETS = {
    "pong": functools.partial(game, "Pong"),
    "breakout": functools.partial(game, "Breakout"),
}
