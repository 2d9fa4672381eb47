"""Settings of SAC."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from tfagents_batch.algorithms.shared.actor_critic import Settings
from tfagents_batch.config import number, option
from tfagents_batch.types import EnvSpec


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
    entropy_in_target: ClassVar[bool] = True

    def regularizer(self, spec: EnvSpec) -> Any:
        """Return a further loss of the critics, or None."""
        del spec
        return None
