"""Settings of PPO: all flags ``--algorithm.<name>`` except those of the network."""

from __future__ import annotations

import dataclasses
from typing import Literal

from tfagents_batch.algorithms import ppo_alarms, ppo_penalty
from tfagents_batch.algorithms.shared import on_policy
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Limit
from tfagents_batch.nn import networks
from tfagents_batch.types import EnvSpec, UpdateSize


@dataclasses.dataclass(frozen=True)
class Config(on_policy.Settings):
    """Settings of PPO."""

    objective: Literal["clip", "kl", "both"] = option(
        "clip", "surrogate objective: clipped ratio (clip), KL penalty (kl), or both"
    )
    kl: ppo_penalty.Settings = option(
        ppo_penalty.Settings(), "settings of the KL penalty"
    )
    clip_ratio: float = number(
        0.2,
        "clip range e: ratios of 1 - e to 1 + e (Stable-Baselines3: clip_range)",
        above=0,
    )
    gae_lambda: float = number(
        0.95, "lambda of GAE; 1 gives Monte Carlo advantages", least=0, most=1
    )
    epochs: int = option(
        10,
        "passes over each batch of experience (Stable-Baselines3: n_epochs)",
        least=1,
        group="minibatch",
    )
    minibatch_size: int | None = option(
        64,
        "transitions per minibatch; none: all (Stable-Baselines3: batch_size)",
        least=1,
        group="minibatch",
    )
    drop_last: bool = option(
        False,
        "drop the last partial minibatch instead of using smaller minibatches",
        group="minibatch",
    )
    sequence_length: int | None = option(
        None,
        "steps per training sequence; none: the rollout if recurrent, else 1",
        least=1,
        group="minibatch",
    )
    value_scale: float = number(
        1.0, "weight of the value loss, which is half the mean squared error", least=0
    )
    value_clip: float | None = number(
        None,
        "largest change of a value; none: any (Stable-Baselines3: clip_range_vf)",
        above=0,
    )
    value_target: Literal["gae", "return"] = option(
        "gae", "target of the value: GAE advantage plus value, or the discounted return"
    )
    correction: Literal["none", "vtrace"] = option(
        "vtrace",
        "correction of advantages, and of targets with value_target=gae, if the policy "
        "that acted is older, as with rollout.wait_for and overlap",
    )
    kl_stop: float | None = number(
        None,
        "KL in nats that ends an update; none: any (Stable-Baselines3: 1.5 target_kl)",
        above=0,
        group="minibatch",
    )
    normalize_advantage: Literal[True, False, "batch"] = option(
        True,
        "standardize advantages per minibatch (true), per batch, or not at all",
        group="normalization",
    )

    def check(self) -> Config:
        config = super().check()
        config = dataclasses.replace(config, kl=config.kl.check("kl."))
        if config.drop_last and config.minibatch_size is None:
            raise UserError(
                "drop_last is true, but minibatch_size is none: everything is one "
                "minibatch; set minibatch_size, or leave drop_last out"
            )
        return config

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        """Return the limits of metrics, see ``interfaces.Algorithm``."""
        return ppo_alarms.limits(self, spec)

    def update_size(self, collected: int) -> UpdateSize:
        """Return the size of a minibatch, see ``interfaces.Algorithm``."""
        rows = min(self.minibatch_size or collected, collected)
        return UpdateSize(rows, self.network.hidden or networks.HIDDEN)
