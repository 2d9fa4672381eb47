"""Work of stepping environments alone, the same for every contender.

Peers run this file too, in an interpreter that may have no TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import importlib.metadata
import platform
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np


@dataclasses.dataclass(frozen=True)
class Stepping:
    """Random actions in a batch of environments.

    Attributes:
      env: Gymnasium id, or ``module:Class``.
      num_envs: size of the batch, B.
      env_kwargs: arguments of every environment.
      num_workers: number of processes; contenders that cannot choose report their own.
      seed: seed of environments and actions.
      block: number of steps of the batch between two readings of the clock.
      seconds: seconds to play after the warm-up.
      blocks: exact number of blocks to play, instead of ``seconds``.
    """

    env: str
    num_envs: int
    env_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    num_workers: int = 1
    seed: int = 1
    block: int = 256
    seconds: float = 10.0
    blocks: int | None = None

    @property
    def least_seconds(self) -> float:
        """Minimum of measured seconds: none, because ``blocks`` are exact."""
        return 0.0

    def constructor(self) -> Callable[[], gymnasium.Env]:
        """Return a function that creates one environment."""
        return functools.partial(make, self.env, self.env_kwargs)

    def actions(self) -> np.ndarray:
        """Return actions ``[block, B, ...]``; every block of steps plays the same ones.

        They are drawn before the clock starts, so that only environments are measured.
        """
        env = self.constructor()()
        space = env.action_space
        env.close()
        random, shape = np.random.default_rng(self.seed), (self.block, self.num_envs)
        if isinstance(space, gymnasium.spaces.Discrete):
            return random.integers(space.start, space.start + space.n, shape)
        if isinstance(space, gymnasium.spaces.Box):
            size = (*shape, *space.shape)
            return random.uniform(space.low, space.high, size).astype(space.dtype)
        raise TypeError(f"actions of {space} cannot be drawn; expected Discrete or Box")

    def same(
        self, constructor: Callable[[], gymnasium.Env], actions: np.ndarray
    ) -> dict[str, Any]:
        """Return what must be equal for every contender.

        Args:
          constructor: constructor of the environments in use.
          actions: actions in use.
        """
        env = constructor()
        try:
            return {
                "environment": describe(env),
                "num_envs": self.num_envs,
                "policy": "random actions",
                "actions": hashlib.sha256(actions.tobytes()).hexdigest()[:16],
                "counted": "real transitions; restart rows are not",
                "versions": versions("gymnasium", "numpy", "mujoco"),
            }
        finally:
            env.close()


def make(name: str, kwargs: dict[str, Any]) -> gymnasium.Env:
    """Create an environment without Gymnasium's checker, which no contender needs.

    Args:
      name: Gymnasium id, or ``module:Class``.
      kwargs: arguments of the environment.
    """
    module, colon, kind = name.partition(":")
    if colon:
        return getattr(importlib.import_module(module), kind)(**kwargs)
    return gymnasium.make(name, disable_env_checker=True, **kwargs)


def describe(env: gymnasium.Env) -> dict[str, Any]:
    """Return id with version, arguments, wrappers and time limit of an environment."""
    spec, layers = env.spec, []
    while isinstance(env, gymnasium.Wrapper):
        layers.append(type(env).__name__)
        env = env.env
    return {
        "id": spec.id if spec else type(env).__name__,
        "kwargs": dict(spec.kwargs) if spec else {},
        "wrappers": layers,
        "time_limit": spec.max_episode_steps if spec else None,
    }


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
