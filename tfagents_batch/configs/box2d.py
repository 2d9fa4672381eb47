"""Box2D (extra ``box2d``)."""

from __future__ import annotations

from tfagents_batch.algorithms import ppo
from tfagents_batch.schedules import Constant, Linear
from tfagents_batch.training.config import Config


def lunarlander() -> Config:
    """LunarLander-v3, solved at a mean return of 200."""
    return Config(
        env="LunarLander-v3",
        steps=1_000_000,
        num_envs=16,
        rollout_length=256,
        settings=ppo.Config(
            gamma=0.999,
            gae_lambda=0.98,
            learning_rate=Linear(5e-4, 0.0),
            epochs=8,
            minibatch_size=256,
            entropy_scale=Constant(0.01),
        ),
    )


def bipedalwalker() -> Config:
    """BipedalWalker-v3, solved at a mean return of 300.

    Discount, clipping and step size of rl-baselines3-zoo; shorter rollouts in larger
    minibatches than there.
    """
    return Config(
        env="BipedalWalker-v3",
        steps=5_000_000,
        num_envs=32,
        rollout_length=512,
        settings=ppo.Config(
            clip_ratio=0.18,
            gamma=0.999,
            learning_rate=Linear(3e-4, 0.0),
            epochs=10,
            minibatch_size=256,
        ),
    )


PRESETS = {"lunarlander": lunarlander, "bipedalwalker": bipedalwalker}
