"""Names ``tf/<id>`` of the environments in this package written in TensorFlow."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tfagents_batch.envs.tf.acrobot import Acrobot
from tfagents_batch.envs.tf.bandit import Bandit
from tfagents_batch.envs.tf.cartpole import CartPole
from tfagents_batch.envs.tf.catch import Catch
from tfagents_batch.envs.tf.environment import TensorEnv
from tfagents_batch.envs.tf.flappy import Flappy
from tfagents_batch.envs.tf.gridworld import GridWorld
from tfagents_batch.envs.tf.minatar import (
    asterix,
    breakout,
    freeway,
    seaquest,
    space_invaders,
)
from tfagents_batch.envs.tf.minatar.game import MinAtar
from tfagents_batch.envs.tf.mountain_car import MountainCar, MountainCarContinuous
from tfagents_batch.envs.tf.pendulum import Pendulum
from tfagents_batch.envs.tf.tmaze import TMaze
from tfagents_batch.errors import UserError, first_line
from tfagents_batch.settings.suggest import hint

PREFIX = "tf/"
_LIMIT = "max_episode_steps"
_GAMES = {
    "Asterix": asterix,
    "Breakout": breakout,
    "Freeway": freeway,
    "Seaquest": seaquest,
    "SpaceInvaders": space_invaders,
}


ENVIRONMENTS: dict[str, Callable[..., TensorEnv]] = {
    "CartPole-v1": CartPole,
    "Pendulum-v1": Pendulum,
    "Acrobot-v1": Acrobot,
    "MountainCar-v0": MountainCar,
    "MountainCarContinuous-v0": MountainCarContinuous,
    "Catch-v0": Catch,
    "Flappy-v0": Flappy,
    "GridWorld-v0": GridWorld,
    "Bandit-v0": Bandit,
    "TMaze-v0": TMaze,
    **{
        f"MinAtar/{name}-v1": functools.partial(MinAtar, module.RULES)
        for name, module in _GAMES.items()
    },
}


def make(name: str, env_kwargs: dict[str, Any] | None = None) -> TensorEnv:
    """Create an environment from a name that begins with ``tf/``."""
    id = name.removeprefix(PREFIX)
    if id not in ENVIRONMENTS:
        known = [PREFIX + known_id for known_id in ENVIRONMENTS]
        raise UserError(f"environment {name!r} does not exist; {hint(name, known)}")
    return construct(ENVIRONMENTS[id], env_kwargs, name)


def construct(
    make: Callable[..., TensorEnv], env_kwargs: dict[str, Any] | None, name: str
) -> TensorEnv:
    """Call a class or function that creates an environment; a UserError if it refuses.

    All of them accept ``max_episode_steps``, as in ``gymnasium.make``.
    """
    kwargs, signature = dict(env_kwargs or {}), inspect.signature(make)
    known = _LIMIT in signature.parameters
    limit = {} if known or _LIMIT not in kwargs else {_LIMIT: kwargs.pop(_LIMIT)}
    try:
        signature.bind(**kwargs)
    except TypeError as error:
        raise UserError(f"env_kwargs {kwargs} do not fit {name}: {error}") from None
    try:
        env = make(**kwargs)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} cannot be created: {first_line(error)}") from error
    for attribute, value in limit.items():
        setattr(env, attribute, value)
    return env
