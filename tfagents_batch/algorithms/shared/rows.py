"""Settings of algorithms that learn from logged rows only."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tfagents_batch.algorithms.shared import off_policy, optimization
from tfagents_batch.config import number, option
from tfagents_batch.metrics import Limit
from tfagents_batch.nn import actor
from tfagents_batch.types import Accepts, DefaultSource, EnvSpec, Rows, UpdateSize


@dataclasses.dataclass(frozen=True)
class Settings(optimization.Settings):
    """Settings of an algorithm that learns from logged rows."""

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
        """Return the limits of metrics, see ``interfaces.Algorithm``."""
        del spec
        return ()

    def update_size(self, transitions: int) -> UpdateSize:
        """Return the size of an update, see ``interfaces.Algorithm``."""
        del transitions
        return UpdateSize(self.batch_size, self.network.hidden or actor.HIDDEN)


@dataclasses.dataclass(frozen=True)
class ValueSettings(Settings):
    """Settings of an algorithm with values and target networks."""

    gamma: float = number(0.99, "discount factor per step", least=0, most=1)
    target_every: int = option(1, "updates per update of targets", least=1)
    target_tau: float = number(
        0.005, "step of target networks to the learned ones", above=0, most=1
    )

    def accepts(self) -> Accepts:
        """Return that it learns from rows, and the discount factor of its values."""
        return {"rows": Rows(self.batch_size, self.gamma)}


@dataclasses.dataclass(frozen=True)
class ActorCriticSettings(ValueSettings):
    """Settings of an actor and critics."""

    num_critics: int = option(
        2, "number of critics; targets use their minimum", least=1, most=10
    )
    network: actor.Config = option(actor.Config(), "shape of the networks")

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        """Return the limits of metrics, see ``interfaces.Algorithm``."""
        del spec
        return (
            off_policy.diverging_values(
                100,
                self.gamma,
                "smaller rewards; lower --algorithm.learning_rate or "
                "--algorithm.target_tau",
            ),
        )
