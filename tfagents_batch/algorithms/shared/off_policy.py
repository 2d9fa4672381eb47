"""Settings of algorithms with a replay, and of those that learn from logged rows."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tfagents_batch.algorithms.shared import alarms
from tfagents_batch.algorithms.shared.optimization import OptimizerSettings
from tfagents_batch.clocks import Ratio
from tfagents_batch.config import number, option
from tfagents_batch.metrics import Limit
from tfagents_batch.nn import actor
from tfagents_batch.types import Accepts, DefaultSource, EnvSpec, Rows, Windows

_COLLECTING = "train_every", "train_updates", "warmup_steps"


@dataclasses.dataclass(frozen=True)
class ReplaySettings(OptimizerSettings):
    """Settings that all algorithms with a replay have."""

    gamma: float = number(0.99, "discount factor per step", least=0, most=1)
    n_step: int = option(1, "number of rewards in a target, n", least=1, most=1000)
    batch_size: int = option(256, "transitions per update", least=1, group="update")
    train_every: int = option(
        1,
        "environment steps per training (Stable-Baselines3: train_freq)",
        least=1,
        most=1_000_000,
        group="update",
    )
    train_updates: int = option(
        1,
        "updates per training (Stable-Baselines3: gradient_steps)",
        least=1,
        most=1_000_000,
        group="update",
    )
    warmup_steps: int = option(
        1000,
        "random environment steps before training (Stable-Baselines3: learning_starts)",
        least=0,
        group="update",
    )
    target_every: int = option(
        1,
        "updates per update of targets (Stable-Baselines3: target_update_interval)",
        least=1,
        group="update",
    )
    target_tau: float = number(
        0.005,
        "step of target networks to the learned ones (Stable-Baselines3: tau)",
        above=0,
        most=1,
        group="update",
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
        return windows | (self.only_rows() if self.n_step == 1 else {})

    def only_rows(self) -> Accepts:
        """Return that it learns from rows, which hold their n rewards already."""
        return {"rows": Rows(self.batch_size, self.gamma, _COLLECTING)}


@dataclasses.dataclass(frozen=True)
class RowSettings(OptimizerSettings):
    """Settings that all algorithms of logged rows have."""

    batch_size: int = option(256, "rows per update", least=1)
    histograms: bool = option(
        True, "log histograms, such as those of values, weights and gradients"
    )

    source: ClassVar[DefaultSource] = "table", {}
    OF_AGENT: ClassVar[tuple[str, ...]] = ("network.activation",)

    def accepts(self) -> Accepts:
        """Return that it learns from rows."""
        return {"rows": Rows(self.batch_size)}

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        """Return no limits of metrics."""
        return ()


@dataclasses.dataclass(frozen=True)
class RowValueSettings(RowSettings):
    """Settings of values and target networks that learn from logged rows."""

    gamma: float = number(0.99, "discount factor per step", least=0, most=1)
    target_every: int = option(1, "updates per update of targets", least=1)
    target_tau: float = number(
        0.005, "step of target networks to the learned ones", above=0, most=1
    )

    def accepts(self) -> Accepts:
        """Return that it learns from rows, and the discount factor of its values."""
        return {"rows": Rows(self.batch_size, self.gamma)}


@dataclasses.dataclass(frozen=True)
class RowActorCriticSettings(RowValueSettings):
    """Settings of an actor and critics that learn from logged rows."""

    num_critics: int = option(
        2, "number of critics; targets use their minimum", least=1, most=10
    )
    network: actor.ActorConfig = option(actor.ActorConfig(), "shape of the networks")

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        """Return the limit of values."""
        advice = (
            "smaller rewards; lower --algorithm.learning_rate or --algorithm.target_tau"
        )
        return (alarms.diverging_values(100, self.gamma, advice),)
