"""Environments written in TensorFlow, whose steps are part of the compiled program."""

from __future__ import annotations

import dataclasses
import functools

from tfagents_batch.algorithms import ppo
from tfagents_batch.configs import classic_control
from tfagents_batch.nn import networks
from tfagents_batch.schedules import Constant, Linear
from tfagents_batch.training.config import Config


def cartpole() -> Config:
    """CartPole-v1 in the graph, solved at a mean return of 475.

    With twice the environments, which cost little there, for half the steps of each.
    """
    return dataclasses.replace(
        classic_control.cartpole(),
        env="tf/CartPole-v1",
        num_envs=16,
        rollout_length=128,
    )


def pendulum() -> Config:
    """Pendulum-v1 in the graph, a mean return of -200 or better."""
    return dataclasses.replace(classic_control.pendulum(), env="tf/Pendulum-v1")


def acrobot() -> Config:
    """Acrobot-v1 in the graph, solved at a mean return of -100."""
    return _larger(classic_control.acrobot(), "tf/Acrobot-v1")


def mountaincar() -> Config:
    """MountainCar-v0 in the graph, solved at a mean return of -110."""
    return _larger(classic_control.mountaincar(), "tf/MountainCar-v0")


def mountaincar_continuous() -> Config:
    """MountainCarContinuous-v0 in the graph, solved at a mean return of 90."""
    there = classic_control.mountaincar_continuous()
    return _larger(there, "tf/MountainCarContinuous-v0")


def catch() -> Config:
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


def gridworld() -> Config:
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


def tmaze() -> Config:
    """The T-maze; a GRU remembers the sign, a mean return of 4, not 1.5."""
    return Config(
        env="tf/TMaze-v0",
        steps=200_000,
        num_envs=32,
        rollout_length=64,
        settings=ppo.Config(
            learning_rate=Linear(1e-3, 0.0),
            epochs=4,
            minibatch_size=256,
            entropy_scale=Constant(0.01),
            network=networks.Config(core="gru"),
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


def _larger(there: Config, env: str) -> Config:
    """A preset in the graph, with twice the environments for half the steps of each."""
    return dataclasses.replace(there, env=env, num_envs=32, rollout_length=64)


MINATAR = {
    "asterix": "Asterix",
    "breakout": "Breakout",
    "freeway": "Freeway",
    "seaquest": "Seaquest",
    "spaceinvaders": "SpaceInvaders",
}

PRESETS = {
    "tf/cartpole": cartpole,
    "tf/pendulum": pendulum,
    "tf/acrobot": acrobot,
    "tf/mountaincar": mountaincar,
    "tf/mountaincar-continuous": mountaincar_continuous,
    "tf/catch": catch,
    "tf/gridworld": gridworld,
    "tf/tmaze": tmaze,
    **{
        f"tf/{name}-minatar": functools.partial(minatar, game)
        for name, game in MINATAR.items()
    },
}
