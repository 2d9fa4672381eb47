"""Classic control, and CartPole with a part of it hidden."""

from __future__ import annotations

from tfagents_batch.algorithms import ppo
from tfagents_batch.nn import networks
from tfagents_batch.schedules import Linear
from tfagents_batch.training.config import Config


def cartpole() -> Config:
    """CartPole-v1, solved at a mean return of 475."""
    return Config(
        env="CartPole-v1",
        steps=200_000,
        num_envs=8,
        rollout_length=256,
        settings=ppo.Config(
            learning_rate=Linear(1e-3, 0.0),
            gae_lambda=0.98,
            epochs=10,
            minibatch_size=128,
        ),
    )


def cartpole_hidden() -> Config:
    """CartPole-v1 without its velocities, which a GRU has to remember; aims at 475."""
    return Config(
        env="CartPole-v1",
        wrappers=[{"name": "SelectEntries", "indices": [0, 2]}],
        steps=200_000,
        num_envs=16,
        rollout_length=128,
        settings=ppo.Config(
            learning_rate=Linear(1e-3, 0.0),
            epochs=10,
            minibatch_size=512,
            sequence_length=32,
            network=networks.Config(core="gru"),
        ),
    )


def pendulum() -> Config:
    """Pendulum-v1, a mean return of -200 or better."""
    return Config(
        env="Pendulum-v1",
        steps=300_000,
        num_envs=8,
        rollout_length=256,
        settings=ppo.Config(
            gamma=0.95,
            gae_lambda=0.95,
            learning_rate=Linear(5e-4, 0.0),
            epochs=10,
            minibatch_size=64,
            network=networks.Config(init_std=2.0),
        ),
    )


def acrobot() -> Config:
    """Acrobot-v1, solved at a mean return of -100."""
    return Config(
        env="Acrobot-v1",
        steps=500_000,
        num_envs=16,
        rollout_length=128,
        settings=ppo.Config(
            gae_lambda=0.94,
            learning_rate=Linear(1e-3, 0.0),
            epochs=4,
            minibatch_size=128,
        ),
    )


def mountaincar() -> Config:
    """MountainCar-v0, solved at a mean return of -110."""
    return Config(
        env="MountainCar-v0",
        steps=1_000_000,
        num_envs=16,
        rollout_length=128,
        settings=ppo.Config(
            gae_lambda=0.98,
            learning_rate=Linear(1e-3, 0.0),
            epochs=4,
            minibatch_size=128,
        ),
    )


def mountaincar_continuous() -> Config:
    """MountainCarContinuous-v0, solved at a mean return of 90."""
    return Config(
        env="MountainCarContinuous-v0",
        steps=500_000,
        num_envs=16,
        rollout_length=128,
        settings=ppo.Config(
            gamma=0.999,
            gae_lambda=0.98,
            learning_rate=Linear(1e-3, 0.0),
            epochs=4,
            minibatch_size=128,
            network=networks.Config(init_std=2.0),
        ),
    )


PRESETS = {
    "cartpole": cartpole,
    "cartpole-hidden": cartpole_hidden,
    "pendulum": pendulum,
    "acrobot": acrobot,
    "mountaincar": mountaincar,
    "mountaincar-continuous": mountaincar_continuous,
}
