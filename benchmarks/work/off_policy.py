"""Work of training with a replay, the same for every contender.

Peers run this file too, in an interpreter that may have no TensorFlow.
"""

from __future__ import annotations

import dataclasses
import fractions
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium

from benchmarks.work.stepping import describe, make, versions


class Calls(NamedTuple):
    """Settings of a peer that counts calls of its batch of environments.

    Attributes:
      train_freq: calls between trainings.
      gradient_steps: updates of a training.
    """

    train_freq: int
    gradient_steps: int


@dataclasses.dataclass(frozen=True)
class OffPolicy:
    """DQN, SAC or TD3 with a uniform replay and Adam.

    DQN has Huber's loss. SAC learns its temperature. SAC and TD3 have two critics.

    A block of work is ``block`` environment steps with their updates. The first block
    also has the warm-up, so that learning has started when the measurement begins.

    Attributes:
      env: Gymnasium id, or ``module:function``.
      algorithm: "dqn", "sac" or "td3".
      num_envs: B. Peers may also run with one environment, whichever is faster.
      batch_size: transitions per update.
      train_every, train_updates: q and p; p updates for every q environment steps.
      steps: environment steps of a whole run, with the first block.
      rollout_steps: our steps of every environment between two trainings.
      block: environment steps of a block.
      learning_rate: constant learning rate of Adam, in all its uses.
      epsilon: DQN's probability of a random action: start, end, and steps of the ramp.
      target_every: DQN's updates between copies to the target network.
      target_tau: share by which target networks move; 1 copies.
      policy_delay: updates for one step of the actor and the target networks.
      noise: scale of TD3's noise in actions, in units of half their range.
      target_entropy: entropy that SAC's temperature aims at.
      warmup_steps: environment steps with random actions, before the first update.
      capacity: transitions of the replay.
      gradient_norm: largest global norm of gradients; None does not clip them.
      hidden: units of the hidden ReLU layers of "mlp".
      network: "mlp", or DQN's "small_cnn": 16 filters of 3 x 3 pixels, and 128 units.
      env_kwargs: arguments of every environment.
      num_workers: number of processes; contenders that cannot choose report their own.
      seed: seed of the run.
      compare_returns: whether runs are long enough to compare returns.
      seconds: minimum of measured seconds.
      blocks: minimum of measured blocks; returns are taken after them. None measures
        for ``seconds`` only.
    """

    env: str
    num_envs: int
    batch_size: int
    train_every: int
    train_updates: int
    steps: int
    algorithm: str = "dqn"
    rollout_steps: int = 1
    block: int = 4000
    learning_rate: float = 1e-4
    gamma: float = 0.99
    epsilon: tuple[float, float, int] = (1.0, 0.05, 5000)
    target_every: int = 2500
    target_tau: float = 1.0
    policy_delay: int = 1
    noise: float = 0.1
    target_entropy: float | None = None
    warmup_steps: int = 100
    capacity: int = 1_000_000
    gradient_norm: float | None = 10.0
    adam_epsilon: float = 1e-8
    hidden: tuple[int, ...] = (64, 64)
    network: str = "mlp"
    env_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    num_workers: int = 1
    seed: int = 1
    compare_returns: bool = True
    seconds: float = 10.0
    blocks: int | None = None

    def __post_init__(self):
        for name in ("hidden", "epsilon"):  # JSON gives lists
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def least_seconds(self) -> float:
        """Minimum of measured seconds, so that fast contenders are measured well."""
        return self.seconds

    @property
    def first_block(self) -> int:
        """Environment steps of the first block, with the warm-up."""
        return self.warmup_steps + self.block

    @property
    def iterations(self) -> int:
        """Number of blocks of a whole run."""
        return 1 + max(0, -(-(self.steps - self.first_block) // self.block))

    def updates_due(self, before: int, after: int) -> int:
        """Return the exact number of updates for steps ``before`` to ``after``."""

        def total(step: int) -> int:
            passed = max(0, step - self.warmup_steps)
            return passed * self.train_updates // self.train_every

        return total(after) - total(before)

    def exploration(self, step: int) -> float:
        """Return the probability of a random action at an environment step."""
        start, end, length = self.epsilon
        part = min(1.0, step / length)
        return (1 - part) * start + part * end

    def calls(self, num_envs: int) -> Calls:
        """Return the settings of a peer that give the same updates per step.

        Args:
          num_envs: number of its environments.

        Raises:
          ValueError: if no whole numbers do.
        """
        every, updates = self.train_every, self.train_updates
        between = max(every, num_envs)
        if between % every or between % num_envs or self.block % between:
            raise ValueError(
                f"{num_envs} environments cannot train {updates} times in {every} "
                f"steps, in blocks of {self.block}"
            )
        return Calls(between // num_envs, updates * between // every)

    def target_steps(self, num_envs: int) -> int:
        """Return DQN's environment steps between copies to the target network.

        Args:
          num_envs: number of the contender's environments.

        Raises:
          ValueError: if no whole number of their calls has as many updates.
        """
        steps, rest = divmod(self.target_every * self.train_every, self.train_updates)
        if rest or steps % num_envs:
            raise ValueError(
                f"{num_envs} environments cannot make {self.target_every} updates "
                "between copies to the target network"
            )
        return steps

    def constructor(self) -> Callable[[], gymnasium.Env]:
        """Return a function that creates one environment."""
        return functools.partial(make, self.env, self.env_kwargs)

    def environment(self) -> dict[str, Any]:
        """Return the description of the Gymnasium environments in use."""
        env = self.constructor()()
        try:
            return describe(env)
        finally:
            env.close()

    def same(
        self,
        environment: dict[str, Any],
        parameters: int,
        updates: Mapping[str, int | fractions.Fraction],
        env_steps: int,
        samples: int,
        target_every: int,
        hyperparameters: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return what must be equal for every contender.

        Args:
          environment: description of the environments in use.
          parameters: number of trainable numbers, counted in the networks in use;
            without target networks and the temperature.
          updates, env_steps: updates of measured blocks, and their transitions. Updates
            are those of the "values", and of "actor" and "temperature" if there are
            any. A contender whose transitions are no multiple of ``train_every`` must
            check its counts against ``updates_due`` itself.
          samples: number of transitions of an update.
          target_every: updates between moves of the target networks.
          hyperparameters: learning_rate, gamma, target_tau, target_entropy, n_step and
            double_q in use.
        """
        loss = "huber" if self.algorithm == "dqn" else "squared"
        norm = self.gradient_norm
        clipping = f"clipped to a norm of {norm:g}" if norm else "not clipped"
        return {
            "environment": environment,
            "updates_per_env_step": {
                name: str(fractions.Fraction(count, env_steps))
                for name, count in updates.items()
            },
            "samples_an_update": samples,
            "parameters": parameters,
            "updates_between_targets": target_every,
            **hyperparameters,
            "loss": f"{loss}, gradients {clipping}",
            "replay": f"{self.capacity} transitions, uniform",
            "precision": "float32",
            "counted": "transitions collected; restart rows are not",
            "versions": versions("gymnasium", "numpy", "mujoco"),
        }
