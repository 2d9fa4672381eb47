"""Settings that all algorithms with an actor and critics have."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Self

from tfagents_batch import config
from tfagents_batch.algorithms.shared import alarms, off_policy
from tfagents_batch.config import option
from tfagents_batch.interfaces import Limit, UpdateSize
from tfagents_batch.nn import actor


@dataclasses.dataclass(frozen=True)
class Settings(off_policy.Settings):
    """Settings that all algorithms with an actor and critics have."""

    critics: int = option(2, "critics; the smallest value counts", least=1, most=10)
    network: actor.Config = option(actor.Config(), "shape of the networks")

    # Settings that change the meaning of saved weights, see ``training.warm_start``.
    OF_AGENT: ClassVar[tuple[str, ...]] = ("network.activation",)

    def check(self) -> Self:
        """Return the checked settings.

        Raises:
          UserError: for a setting that is invalid.
        """
        checked = config.check(self)
        return dataclasses.replace(checked, network=checked.network.check("network."))

    def alarms(self) -> tuple[Limit, ...]:
        """Return the limits of metrics, see ``interfaces.Algorithm``."""
        return (
            off_policy.diverging_values(
                100,
                self.gamma,
                "smaller rewards; lower --algorithm.learning_rate or "
                "--algorithm.target_tau; fewer --algorithm.train_updates",
            ),
            *alarms.small_returns(),
        )

    def update_size(self, collected: int) -> UpdateSize:
        """Return the size of a batch, see ``interfaces.Algorithm``."""
        del collected
        return UpdateSize(self.batch_size, self.network.hidden or actor.HIDDEN)
