"""Settings of PPO: all flags ``--algorithm.<name>`` except those of the network."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import UpdateSize
from tfagents_batch.nn import adaptive_kl, moments, networks
from tfagents_batch.schedules import Constant, Schedule


@dataclasses.dataclass(frozen=True)
class Config(adaptive_kl.Settings):
    """Settings of PPO, including those of the KL penalty."""

    clip_ratio: float = option(
        0.2,
        "clip range of the probability ratio, 1 - clip_ratio to 1 + clip_ratio",
        above=0,
    )
    gamma: float = option(0.99, "discount factor per step", least=0, most=1)
    gae_lambda: float = option(
        0.95, "lambda of GAE; 1 gives Monte Carlo advantages", least=0, most=1
    )
    learning_rate: Schedule = option(Constant(3e-4), "Adam's step size", least=0)
    adam_epsilon: float = option(1e-5, "Adam's epsilon", above=0)
    epochs: int = option(10, "passes over a trajectory", least=1)
    minibatch_size: int | None = option(
        64, "minibatch size in transitions; none uses the whole batch", least=1
    )
    drop_last: bool = option(
        False,
        "drop the last partial minibatch instead of using smaller minibatches",
        formerly="drop_rest",
    )
    sequence_length: int | None = option(
        None,
        "steps per training sequence; none: the rollout if recurrent, else 1",
        least=1,
    )
    gradient_norm: float | None = option(
        0.5, "largest global norm of the gradient; none disables clipping", above=0
    )
    entropy_scale: Schedule = option(Constant(0.0), "weight of the entropy bonus")
    value_scale: float = option(
        1.0, "weight of the value loss, which is half the mean squared error", least=0
    )
    value_clip: float | None = option(
        None, "largest change of a value per update; none disables clipping", above=0
    )
    value_target: Literal["gae", "return"] = option(
        "gae", "target of the value: GAE advantage plus value, or the discounted return"
    )
    kl_stop: float | None = option(
        None,
        "KL in nats at which an update skips its remaining epochs; none: never",
        above=0,
    )
    normalize_advantage: Literal[True, False, "batch"] = option(
        True,
        "standardize advantages per minibatch (true), per batch, or not at all",
    )
    normalize_observation: bool = option(
        True, "normalize observations by a running mean and standard deviation"
    )
    observation_clip: float = option(
        10.0, "largest magnitude of a normalized observation", above=0
    )
    normalize_floor: float = option(
        moments.FLOOR,
        "smallest standard deviation by which observations and rewards are divided",
        above=0,
    )
    normalize_epsilon: float = option(
        0.0, "constant added to the variance before its square root", least=0
    )
    normalize_return: moments.RewardKind = option(
        True,
        "divide rewards by the std of returns (true) or of rewards (per_step)",
    )
    reward_clip: float = option(
        10.0, "largest magnitude of a normalized reward", above=0
    )
    histograms: bool = option(
        True,
        "log histograms of actions, values, KL, weights, gradients and statistics",
    )
    network: networks.Config = option(networks.Config(), "shape of the network")

    # Settings that change the meaning of saved weights and statistics. Settings that
    # change shapes need not be listed here. See ``training.warm_start``.
    OF_AGENT: ClassVar[tuple[str, ...]] = (
        *("normalize_observation", "normalize_return"),
        *("network.activation", "network.mean", "network.std", "network.squash"),
        *("network.min_std", "network.max_std"),
    )

    def check(self) -> Config:
        config = super().check()
        if config.drop_last and config.minibatch_size is None:
            raise UserError(
                "drop_last is true, but minibatch_size is none: everything is one "
                "minibatch; set minibatch_size, or leave drop_last out"
            )
        return dataclasses.replace(config, network=config.network.check("network."))

    def update_size(self, collected: int) -> UpdateSize:
        """Return the size of a minibatch, see ``interfaces.Algorithm``."""
        rows = min(self.minibatch_size or collected, collected)
        return UpdateSize(rows, self.network.hidden or networks.HIDDEN)
