"""Presets: ``PRESETS[name]()`` is the config of an experiment tuned to solve it.

What each reaches, and the command that shows it, stands in ``docs/results.md``.
"""

from __future__ import annotations

import dataclasses
import functools

from tfagents_batch.algorithms import ppo
from tfagents_batch.nn import networks
from tfagents_batch.schedules import Constant, Linear
from tfagents_batch.training.experiment import Config


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


def halfcheetah() -> Config:
    """HalfCheetah-v5 (extra ``mujoco``)."""
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


# ---- environments written in TensorFlow


def tf_cartpole() -> Config:
    """CartPole-v1 in the graph, solved at a mean return of 475.

    With twice the environments, which cost little there, for half the steps of each.
    """
    return dataclasses.replace(
        cartpole(), env="tf/CartPole-v1", num_envs=16, rollout_length=128
    )


def tf_pendulum() -> Config:
    """Pendulum-v1 in the graph, a mean return of -200 or better."""
    return dataclasses.replace(pendulum(), env="tf/Pendulum-v1")


def tf_acrobot() -> Config:
    """Acrobot-v1 in the graph, solved at a mean return of -100."""
    return Config(
        env="tf/Acrobot-v1",
        steps=500_000,
        num_envs=32,
        rollout_length=64,
        settings=ppo.Config(
            gae_lambda=0.94,
            learning_rate=Linear(1e-3, 0.0),
            epochs=4,
            minibatch_size=128,
        ),
    )


def tf_mountaincar() -> Config:
    """MountainCar-v0 in the graph, solved at a mean return of -110."""
    return Config(
        env="tf/MountainCar-v0",
        steps=1_000_000,
        num_envs=32,
        rollout_length=64,
        settings=ppo.Config(
            gae_lambda=0.98,
            learning_rate=Linear(1e-3, 0.0),
            epochs=4,
            minibatch_size=128,
        ),
    )


def tf_mountaincar_continuous() -> Config:
    """MountainCarContinuous-v0 in the graph, solved at a mean return of 90."""
    return Config(
        env="tf/MountainCarContinuous-v0",
        steps=500_000,
        num_envs=32,
        rollout_length=64,
        settings=ppo.Config(
            gamma=0.999,
            gae_lambda=0.98,
            learning_rate=Linear(1e-3, 0.0),
            epochs=4,
            minibatch_size=128,
            network=networks.Config(init_std=2.0),
        ),
    )


def tf_catch() -> Config:
    """Catch in the graph; the ball is caught at a mean return of 1."""
    return Config(
        env="tf/Catch-v0",
        steps=100_000,
        num_envs=32,
        rollout_length=32,
        settings=ppo.Config(
            learning_rate=Linear(1e-3, 0.0), epochs=4, minibatch_size=128
        ),
    )


def tf_gridworld() -> Config:
    """The four rooms; the shortest way from anywhere is a mean return of about 0.9."""
    return Config(
        env="tf/GridWorld-v0",
        env_kwargs={"one_hot": True, "step_reward": -0.01},
        steps=200_000,
        num_envs=32,
        rollout_length=32,
        settings=ppo.Config(
            learning_rate=Linear(1e-3, 0.0), epochs=4, minibatch_size=128
        ),
    )


def minatar(game: str) -> Config:
    """A game of MinAtar in the graph.

    Args:
      game: as its environment is named, ``Breakout`` for example.
    """
    return Config(
        env=f"tf/MinAtar/{game}-v1",
        steps=2_000_000,
        num_envs=64,
        rollout_length=64,
        settings=ppo.Config(
            learning_rate=Linear(2e-3, 0.0),
            epochs=6,
            minibatch_size=256,
            entropy_scale=Constant(0.01),
            normalize_observation=False,
        ),
    )


MINATAR = {
    "asterix": "Asterix",
    "breakout": "Breakout",
    "freeway": "Freeway",
    "seaquest": "Seaquest",
    "spaceinvaders": "SpaceInvaders",
}

PRESETS = {
    "cartpole": cartpole,
    "pendulum": pendulum,
    "lunarlander": lunarlander,
    "halfcheetah": halfcheetah,
    "tf/cartpole": tf_cartpole,
    "tf/pendulum": tf_pendulum,
    "tf/acrobot": tf_acrobot,
    "tf/mountaincar": tf_mountaincar,
    "tf/mountaincar-continuous": tf_mountaincar_continuous,
    "tf/catch": tf_catch,
    "tf/gridworld": tf_gridworld,
    **{
        f"tf/{name}-minatar": functools.partial(minatar, game)
        for name, game in MINATAR.items()
    },
}
