"""Work of training with PPO or A2C, the same for every contender.

Peers run this file too, in an interpreter that may have no TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium

from benchmarks.work.stepping import describe, make, versions

LAST = 0.2  # last fraction of a run's episodes, for the compared returns


@dataclasses.dataclass(frozen=True)
class Training:
    """PPO with clipped objective, two tanh networks, Adam and global-norm clipping.

    Advantages are standardised in each minibatch. Observations and rewards are not
    normalised. An iteration collects ``rollout_length`` steps of every environment, and
    trains ``epochs`` over them. A block of work has ``block`` iterations. A2C has one
    gradient step in an iteration, RMSProp, and advantages that are not standardised.

    Attributes:
      env: Gymnasium id.
      num_envs: B.
      rollout_length: T, steps of each environment per iteration.
      epochs: passes over the ``T * B`` transitions.
      minibatch_size: transitions per gradient step.
      steps: environment steps of a whole run, with warm-up.
      algorithm: "ppo" or "a2c".
      block: iterations of a block. Ours makes them in one call of its program, as it
        does in a run if they are short.
      learning_rate: constant learning rate.
      hidden: units of each layer of policy and value network.
      network: "mlp" with ``hidden`` units, or "nature_cnn" for frames.
      env_kwargs: arguments of every environment.
      num_workers: number of processes; contenders that cannot choose report their own.
      seed: seed of the run.
      compare_returns: whether runs are long enough to compare returns.
      seconds: minimum of measured seconds.
      blocks: minimum of measured iterations; returns are taken after them. None
        measures for ``seconds`` only.
    """

    env: str
    num_envs: int
    rollout_length: int
    epochs: int
    minibatch_size: int
    steps: int
    algorithm: str = "ppo"
    block: int = 1
    learning_rate: float = 3e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_ratio: float = 0.2
    entropy_scale: float = 0.0
    value_scale: float = 0.5
    gradient_norm: float = 0.5
    adam_epsilon: float = 1e-5
    hidden: tuple[int, ...] = (64, 64)
    network: str = "mlp"
    env_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    num_workers: int = 1
    seed: int = 1
    compare_returns: bool = True
    seconds: float = 10.0
    blocks: int | None = None

    def __post_init__(self):
        object.__setattr__(self, "hidden", tuple(self.hidden))  # JSON gives a list

    @property
    def least_seconds(self) -> float:
        """Minimum of measured seconds, so that fast contenders are measured well."""
        return self.seconds

    @property
    def batch(self) -> int:
        """Number of transitions of an iteration."""
        return self.num_envs * self.rollout_length

    @property
    def iterations(self) -> int:
        """Number of blocks of a whole run."""
        return -(-self.steps // (self.batch * self.block))

    def gradient_steps(self, transitions: int) -> int:
        """Return an iteration's gradient steps, with a smaller last minibatch."""
        if self.algorithm == "a2c":
            return 1
        return self.epochs * -(-transitions // self.minibatch_size)

    def constructor(self) -> Callable[[], gymnasium.Env]:
        """Return a function that creates one environment."""
        return functools.partial(make, self.env, self.env_kwargs)

    def same(
        self,
        constructor: Callable[[], gymnasium.Env],
        parameters: int,
        gradient_steps: int,
        samples: int,
    ) -> dict[str, Any]:
        """Return what must be equal for every contender.

        Args:
          constructor: constructor of the environments in use.
          parameters: number of trainable numbers, counted in the networks in use.
          gradient_steps: gradient steps of an iteration with ``batch`` transitions.
            A contender that leaves out restart rows has fewer transitions, and must
            check its counts against ``self.gradient_steps`` itself.
          samples: number of rows of a minibatch in the loss.
        """
        env = constructor()
        try:
            return {
                "environment": describe(env),
                "num_envs": self.num_envs,
                "env_steps_an_iteration": self.batch,
                "gradient_steps_an_iteration": gradient_steps,
                "samples_a_gradient_step": samples,
                "parameters": parameters,
                "advantages": "not standardised"
                if self.algorithm == "a2c"
                else "standardised by minibatch",
                "precision": "float32",
                "counted": "transitions collected; restart rows are not",
                "versions": versions("gymnasium", "numpy", *_packages(env)),
            }
        finally:
            env.close()


def last_mean(returns: Sequence[float]) -> float | None:
    """Return the mean of a run's last returns, given in the order of their ends."""
    count = max(1, round(LAST * len(returns))) if returns else 0
    return sum(returns[-count:]) / count if count else None


def _packages(env: gymnasium.Env) -> list[str]:
    """Return the packages besides Gymnasium that an environment depends on."""
    modules = " ".join(kind.__module__ for kind in type(env.unwrapped).__mro__)
    packages = {"mujoco": "mujoco", "ale_py": "ale-py"}
    return [package for name, package in packages.items() if name in modules]
