"""Settings of algorithms that learn an actor and critics from logged rows only."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Self

from tfagents_batch import config
from tfagents_batch.algorithms.shared import off_policy
from tfagents_batch.config import number, option
from tfagents_batch.interfaces import Accepts, DefaultSource, Rows, UpdateSize
from tfagents_batch.metrics import Limit
from tfagents_batch.nn import actor
from tfagents_batch.nn.optimizer import Rule
from tfagents_batch.schedules import Constant, Schedule
from tfagents_batch.types import EnvSpec


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of an actor and critics that learn from logged rows."""

    gamma: float = number(0.99, "discount factor per step", least=0, most=1)
    learning_rate: Schedule = number(
        Constant(3e-4), "learning rate of the optimizer", least=0
    )
    optimizer: Rule = option(
        "adam", "adam, rmsprop as in PyTorch, or rmsprop_tf as in TensorFlow 1"
    )
    optimizer_epsilon: float = number(1e-8, "epsilon of the optimizer", above=0)
    max_gradient_norm: float | None = number(
        None, "largest global norm of the gradient; none: any", above=0
    )
    batch_size: int = option(256, "rows per update", least=1)
    target_every: int = option(1, "updates per update of targets", least=1)
    target_tau: float = number(
        0.005, "step of target networks to the learned ones", above=0, most=1
    )
    histograms: bool = option(
        True, "log histograms, such as those of values, weights and gradients"
    )
    num_critics: int = option(
        2, "number of critics; targets use their minimum", least=1, most=10
    )
    network: actor.Config = option(actor.Config(), "shape of the networks")

    source: ClassVar[DefaultSource] = "table", {}
    OF_AGENT: ClassVar[tuple[str, ...]] = ("network.activation",)

    def check(self) -> Self:
        """Return the checked settings.

        Raises:
          UserError: for a setting that is invalid.
        """
        checked = config.check(self)
        return dataclasses.replace(checked, network=checked.network.check("network."))

    def accepts(self) -> Accepts:
        """Return that it learns from rows."""
        return {"rows": Rows(self.batch_size, self.gamma)}

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

    def update_size(self, transitions: int) -> UpdateSize:
        """Return the size of an update, see ``interfaces.Algorithm``."""
        del transitions
        return UpdateSize(self.batch_size, self.network.hidden or actor.HIDDEN)
