"""The work of training with PPO, the same for every contender.

Peers run this file too, in an interpreter that may have no TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium

from benchmarks.work.stepping import describe, make, versions

LAST = 0.2  # share of a run's episodes whose returns are compared


@dataclasses.dataclass(frozen=True)
class Training:
    """PPO with clipped objective, two tanh towers, Adam and global-norm clipping.

    Advantages are standardised by minibatch; observations and rewards are as the
    environment gives them. A block of work is one iteration: collect
    ``rollout_length`` steps of every environment, then ``epochs`` over them.

    Attributes:
      env: Gymnasium id.
      num_envs: B.
      rollout_length: T, steps of each environment an iteration.
      epochs: passes over the ``T * B`` transitions.
      minibatch_size: transitions a gradient step.
      steps: environment steps of a whole run, warm-up included.
      learning_rate: of Adam, constant.
      hidden: units of each layer of policy and value network.
      network: "mlp" of ``hidden``, or "nature_cnn" of frames.
      env_kwargs: arguments of every environment.
      num_workers: processes, for contenders that can choose; others tell their own.
      seed: of everything.
      compare_returns: whether runs are long enough for their returns to say something.
      seconds: to measure for, at least.
      blocks: iterations to measure, at least; returns are those of a run that ends
        with them. None for as many as ``seconds`` have.
    """

    env: str
    num_envs: int
    rollout_length: int
    epochs: int
    minibatch_size: int
    steps: int
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
        object.__setattr__(self, "hidden", tuple(self.hidden))  # JSON made it a list

    @property
    def least_seconds(self) -> float:
        """To go on for after ``blocks``, so that fast contenders are timed as well."""
        return self.seconds

    @property
    def batch(self) -> int:
        """Transitions an iteration."""
        return self.num_envs * self.rollout_length

    @property
    def iterations(self) -> int:
        """Of a whole run."""
        return -(-self.steps // self.batch)

    def gradient_steps(self, transitions: int) -> int:
        """That so many transitions take, the last minibatch of an epoch a rest."""
        return self.epochs * -(-transitions // self.minibatch_size)

    def constructor(self) -> Callable[[], gymnasium.Env]:
        """Makes one environment."""
        return functools.partial(make, self.env, self.env_kwargs)

    def same(
        self,
        constructor: Callable[[], gymnasium.Env],
        parameters: int,
        gradient_steps: int,
        samples: int,
    ) -> dict[str, Any]:
        """What must be equal for every contender.

        Args:
          constructor: of the environments in use.
          parameters: trainable numbers, counted in the live networks.
          gradient_steps: of an iteration that has ``batch`` transitions. Who does not
            train on restart rows checks what was counted against ``gradient_steps``
            of the transitions that there were.
          samples: rows of a minibatch, as it came to the loss.
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
                "advantages": "standardised by minibatch",
                "precision": "float32",
                "counted": "transitions collected; restart rows are not",
                "versions": versions("gymnasium", "numpy", *_made_of(env)),
            }
        finally:
            env.close()


def last_mean(returns: Sequence[float]) -> float | None:
    """Mean return of the last episodes of a run, in the order in which they ended."""
    count = max(1, round(LAST * len(returns))) if returns else 0
    return sum(returns[-count:]) / count if count else None


def _made_of(env: gymnasium.Env) -> list[str]:
    """Packages, beside Gymnasium, whose releases an environment depends on."""
    modules = " ".join(kind.__module__ for kind in type(env.unwrapped).__mro__)
    packages = {"mujoco": "mujoco", "ale_py": "ale-py"}
    return [package for name, package in packages.items() if name in modules]
