"""Work of asynchronous training, the same for every contender.

Peers run this file too, in an interpreter that may have no TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import gymnasium

from benchmarks.work.slow import Waiting
from benchmarks.work.stepping import describe, make, versions


@dataclasses.dataclass(frozen=True)
class Asynchronous:
    """Actor-critic training whose environments do not all wait for each other.

    Attributes:
      env: Gymnasium id, or ``module:function``.
      num_envs: number of environments (agents).
      length: largest number of steps of an environment in a piece of experience.
      train_rows: transitions of an update.
      steps: environment steps of a whole run.
      network: "mlp" with ``hidden`` units, or one of GA3C's for frames.
      block: updates between two readings of the clock.
      wait: milliseconds that each environment's steps wait; empty for none.
      wait_for: environments that a step waits for, if it does not wait for all.
      num_workers: number of processes; contenders that cannot choose report their own.
      compare_returns: whether runs are long enough to compare returns.
      seconds: minimum of measured seconds.
      blocks: minimum of measured blocks.
    """

    env: str
    num_envs: int
    length: int
    train_rows: int
    steps: int
    env_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    network: str = "mlp"
    hidden: tuple[int, ...] = (64, 64)
    learning_rate: float = 7e-4
    gamma: float = 0.99
    entropy_scale: float = 0.01
    block: int = 10
    wait: tuple[float, ...] = ()
    wait_for: int | None = None
    num_workers: int = 1
    seed: int = 1
    compare_returns: bool = False
    seconds: float = 10.0
    blocks: int | None = None

    def __post_init__(self):
        for name in ("hidden", "wait"):  # JSON gives lists
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def least_seconds(self) -> float:
        """Minimum of measured seconds."""
        return self.seconds

    @property
    def iterations(self) -> int:
        """Number of blocks of a whole run."""
        return -(-self.steps // (self.train_rows * self.block))

    def constructors(self) -> list[Callable[[], gymnasium.Env]]:
        """Return a function for each environment that creates it."""
        one = functools.partial(make, self.env, self.env_kwargs)
        if not self.wait:
            return [one] * self.num_envs
        return [functools.partial(waiting, one, each) for each in self.wait]

    def same(self, parameters: int, rows: int) -> dict[str, Any]:
        """Return what must be equal for every contender.

        Args:
          parameters: number of trainable numbers, counted in the networks in use.
          rows: transitions of an update.
        """
        env = self.constructors()[0]()
        try:
            return {
                "environment": describe(env),
                "num_envs": self.num_envs,
                "wait": list(self.wait),
                "transitions_an_update": rows,
                "parameters": parameters,
                "precision": "float32",
                "counted": "transitions learned from",
                "versions": versions("numpy", "ale-py"),
            }
        finally:
            env.close()


def waiting(one: Callable[[], gymnasium.Env], milliseconds: float) -> gymnasium.Env:
    """Create an environment whose steps wait."""
    return Waiting(one(), milliseconds)
