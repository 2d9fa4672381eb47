"""Settings that all algorithms with a replay have."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import keras

from tfagents_batch.config import option
from tfagents_batch.interfaces import Accepts, DefaultSource, Limit, Rows, Windows
from tfagents_batch.nn.optimizer import Optimizer
from tfagents_batch.nn.target_network import TargetNetwork
from tfagents_batch.schedules import Constant, Ratio, Schedule


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that all algorithms with a replay have."""

    gamma: float = option(0.99, "discount factor per step", least=0, most=1)
    n_step: int = option(1, "rewards in a target, n", least=1, most=1000)
    learning_rate: Schedule = option(Constant(3e-4), "Adam's step size", least=0)
    adam_epsilon: float = option(1e-8, "Adam's epsilon", above=0)
    gradient_norm: float | None = option(
        None, "largest global norm of the gradient; none disables clipping", above=0
    )
    batch_size: int = option(256, "transitions per update", least=1)
    train_every: int = option(
        1, "environment steps between trainings", least=1, most=1_000_000
    )
    train_updates: int = option(1, "updates per training", least=1, most=1_000_000)
    warmup_steps: int = option(
        1000, "environment steps with random actions before training", least=0
    )
    target_every: int = option(
        1, "updates between moves of the target networks", least=1
    )
    target_tau: float = option(
        0.005, "share by which the target networks move; 1 copies", above=0, most=1
    )
    histograms: bool = option(
        True, "log histograms, such as those of values, weights and gradients"
    )

    source: ClassVar[DefaultSource] = "replay", {}

    @property
    def window(self) -> int:
        """Steps of a window: those around the n rewards of a target."""
        return self.n_step + 1

    def accepts(self) -> Accepts:
        """Return that it learns from windows, and with n = 1 also from rows."""
        ratio = Ratio(self.train_updates, self.train_every, self.warmup_steps)
        windows = {"windows": Windows(self.batch_size, self.window, ratio)}
        return windows | ({"rows": Rows(self.batch_size)} if self.window == 2 else {})

    def optimizer(self, weights: Sequence[keras.Variable]) -> Optimizer:
        """Return an optimizer of some weights."""
        return Optimizer(weights, self.gradient_norm, self.adam_epsilon)

    def target_network(
        self,
        target: Sequence[keras.Variable],
        learned: Sequence[keras.Variable],
        delay: int = 1,
    ) -> TargetNetwork:
        """Return a target network; ``delay`` multiplies ``target_every``."""
        every = self.target_every * delay
        return TargetNetwork(target, learned, every, self.target_tau)


def diverging_values(reward: float, gamma: float, advice: str) -> Limit:
    """Return a limit of the mean action value.

    Args:
      reward: absolute reward of every step that gives the value at the limit.
      gamma: discount factor.
      advice: what to try.
    """
    bound = reward / max(1 - gamma, 1e-4)
    return Limit(
        "values_diverge",
        "value/q",
        above=bound,
        below=-bound,
        lines=3,
        text="The mean action value is {value/q:.3g}, more than rewards of "
        f"{reward:g} per step could give. What to try: {advice}",
    )
