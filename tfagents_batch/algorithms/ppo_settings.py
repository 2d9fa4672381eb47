"""Settings of PPO: all flags ``--algorithm.<name>`` except those of the network."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.nn import adaptive_kl, moments, networks
from tfagents_batch.schedules import Constant, Schedule


@dataclasses.dataclass(frozen=True)
class Config(adaptive_kl.Settings):
    """Settings of PPO, including those of the KL penalty."""

    clip_ratio: float = option(
        0.2, "largest change of the probability ratio, epsilon", above=0
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
        "steps per sequence; none: the trajectory if recurrent, else one transition",
        least=1,
    )
    gradient_norm: float | None = option(
        0.5, "largest global norm of the gradient; none disables clipping", above=0
    )
    entropy_scale: Schedule = option(Constant(0.0), "weight of the entropy bonus")
    value_scale: float = option(
        1.0, "weight of the value loss, half squared error", least=0
    )
    value_clip: float | None = option(
        None, "largest change of a value per update; none disables clipping", above=0
    )
    value_target: Literal["gae", "return"] = option(
        "gae", "target of values: advantage + value, or the return with gae_lambda 1"
    )
    kl_stop: float | None = option(
        None,
        "stop the epochs of an update above this KL; nats; none never stops",
        above=0,
    )
    normalize_advantage: Literal[True, False, "batch"] = option(
        True,
        "standardize advantages per minibatch, or once over the whole batch (batch)",
    )
    normalize_observation: bool = option(
        True, "normalize observations by a running mean and standard deviation"
    )
    observation_clip: float = option(
        10.0, "largest magnitude of a normalized observation", above=0
    )
    normalize_floor: float = option(
        moments.FLOOR,
        "lower bound of the standard deviation that divides observations and rewards",
        above=0,
    )
    normalize_epsilon: float = option(
        0.0, "constant added to the variance before its square root", least=0
    )
    normalize_return: moments.RewardKind = option(
        True,
        "divide rewards by the standard deviation of returns, or of rewards (per_step)",
    )
    reward_clip: float = option(10.0, "largest magnitude of a divided reward", above=0)
    histograms: bool = option(
        True,
        "log histograms of actions, values, divergences, weights, gradients and "
        "statistics",
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
