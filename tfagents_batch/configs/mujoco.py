"""MuJoCo (extra ``mujoco``), the tasks of batch-ppo in their newest versions."""

from __future__ import annotations

import dataclasses

from tfagents_batch.algorithms import ppo
from tfagents_batch.nn import networks
from tfagents_batch.schedules import Constant, Linear
from tfagents_batch.training.config import Config


def halfcheetah() -> Config:
    """HalfCheetah-v5; aims at a mean return of 2000 and far more."""
    return Config(
        env="HalfCheetah-v5",
        steps=1_000_000,
        num_envs=8,
        rollout_length=256,
        settings=ppo.Config(
            learning_rate=Linear(3e-4, 0.0),
            epochs=10,
            minibatch_size=64,
            network=networks.Config(init_std=0.6),
        ),
    )


def walker() -> Config:
    """Walker2d-v5; aims at a mean return of 3000."""
    return dataclasses.replace(halfcheetah(), env="Walker2d-v5")


def hopper() -> Config:
    """Hopper-v5; aims at a mean return of 2200."""
    return dataclasses.replace(halfcheetah(), env="Hopper-v5")


def ant() -> Config:
    """Ant-v5, which has no threshold; as long as in rl-baselines3-zoo."""
    return dataclasses.replace(halfcheetah(), env="Ant-v5", steps=2_000_000)


def reacher() -> Config:
    """Reacher-v5, solved at a mean return of -3.75.

    Episodes are 50 steps, so that a discount of 0.9, which rl-baselines3-zoo has too,
    loses little.
    """
    return Config(
        env="Reacher-v5",
        steps=1_000_000,
        num_envs=8,
        rollout_length=256,
        settings=ppo.Config(
            gamma=0.9,
            learning_rate=Linear(3e-4, 0.0),
            epochs=10,
            minibatch_size=64,
            network=networks.Config(init_std=0.6),
        ),
    )


def humanoid() -> Config:
    """Humanoid-v5, which has no threshold.

    Discounts, network and entropy bonus of rl-baselines3-zoo, where they were searched
    for; its deviation of 0.135 suits actions within 0.4. Rollouts are of more
    environments, and larger steps are taken for it.
    """
    return Config(
        env="Humanoid-v5",
        steps=10_000_000,
        num_envs=16,
        rollout_length=256,
        settings=ppo.Config(
            gamma=0.95,
            gae_lambda=0.9,
            clip_ratio=0.3,
            learning_rate=Linear(1e-4, 0.0),
            epochs=5,
            minibatch_size=256,
            entropy_scale=Constant(0.002),
            network=networks.Config(
                hidden=(256, 256), activation="relu", init_std=0.135
            ),
        ),
    )


PRESETS = {
    "halfcheetah": halfcheetah,
    "cheetah": halfcheetah,
    "walker": walker,
    "hopper": hopper,
    "ant": ant,
    "reacher": reacher,
    "humanoid": humanoid,
}
