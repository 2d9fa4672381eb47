"""Settings of SAC, and of CQL on logged rows."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

from tfagents_batch.algorithms import sac_cql
from tfagents_batch.algorithms.shared.actor_critic import Settings
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.types import Accepts, DefaultSource, EnvSpec


@dataclasses.dataclass(frozen=True)
class Config(Settings):
    """Settings of SAC."""

    temperature: float | None = number(
        None,
        "temperature alpha of the entropy; none: learned (Stable-Baselines3: ent_coef)",
        least=0,
    )
    start_temperature: float = option(
        1.0, "temperature at the start, if it is learned", above=0
    )
    target_entropy: float | None = number(
        None,
        "entropy that a learned temperature aims at, in nats, with actions scaled to "
        "-1 to 1; none: -A for A numbers, 0.98 ln A for A Discrete actions",
    )
    # Whether targets count the entropy of later actions; a setting of CQL.
    entropy_in_target = True

    def regularizer(self, spec: EnvSpec) -> Any:
        """Return a further loss of the critics, or None."""
        del spec
        return None


@dataclasses.dataclass(frozen=True)
class CQLConfig(Config):
    """Settings of CQL."""

    warmup_steps: int = option(0, "not used: nothing is collected", least=0, most=0)
    entropy_in_target: bool = option(False, "count entropy of later actions as value")
    cql_scale: float = option(
        5.0,
        "weight alpha of the conservative loss, if learned at the start; 0: as SAC",
        least=0,
    )
    cql_gap: float | None = option(
        None, "gap between values of all and of logged actions; none: alpha is fixed"
    )
    cql_samples: int = option(
        10, "actions in each row from each of three distributions", least=1, most=1000
    )

    source: ClassVar[DefaultSource] = "table", {}

    def check(self) -> Self:
        """Return the checked settings.

        Raises:
          UserError: for a setting that is invalid, or one that changes nothing.
        """
        if self.cql_gap is not None and not self.cql_scale:
            raise UserError(
                f"cql_gap is {self.cql_gap}, but cql_scale is 0, so alpha stays 0; "
                "leave cql_gap out, or set cql_scale, the first alpha, above 0"
            )
        return super().check()

    def accepts(self) -> Accepts:
        """Return that it learns from rows."""
        return self.only_rows()

    def regularizer(self, spec: EnvSpec) -> sac_cql.Conservative | None:
        """Return the conservative loss of the critics."""
        return sac_cql.Conservative(self, spec) if self.cql_scale else None
