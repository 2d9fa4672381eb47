"""Settings of PPO: every flag ``--algorithm.<name>`` but those of the network."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.nn import adaptive_kl, moments, networks
from tfagents_batch.schedules import Constant, Schedule


@dataclasses.dataclass(frozen=True)
class Config(adaptive_kl.Settings):
    """Settings of PPO, those of the KL penalty among them."""

    clip_ratio: float = option(
        0.2, "largest change of the probability ratio, epsilon", above=0
    )
    gamma: float = option(0.99, "discount a step", least=0, most=1)
    gae_lambda: float = option(
        0.95, "decay of advantages; 1 is Monte Carlo", least=0, most=1
    )
    learning_rate: Schedule = option(Constant(3e-4), "Adam's step size", least=0)
    adam_epsilon: float = option(1e-5, "Adam's epsilon", above=0)
    epochs: int = option(10, "passes over a trajectory", least=1)
    minibatch_size: int | None = option(
        64, "transitions an optimizer step; none: all of them", least=1
    )
    drop_rest: bool = option(
        False, "leave out what fills no minibatch, instead of smaller ones"
    )
    sequence_length: int | None = option(
        None,
        "steps of a sequence, of which minibatches are made then; by default that is "
        "the whole trajectory if the network is recurrent, and single transitions else",
        least=1,
    )
    gradient_norm: float | None = option(
        0.5, "largest global norm; none: no clipping", above=0
    )
    entropy_scale: Schedule = option(Constant(0.0), "weight of the entropy bonus")
    value_scale: float = option(
        1.0, "weight of the value loss, half squared error", least=0
    )
    value_clip: float | None = option(
        None, "largest change of a value an update", above=0
    )
    value_target: Literal["gae", "return"] = option(
        "gae", "of values: advantage + value, or the return with gae_lambda 1"
    )
    kl_stop: float | None = option(
        None, "end an update's epochs above this KL; nats", above=0
    )
    normalize_advantage: Literal[True, False, "batch"] = option(
        True, "standardize within each minibatch; batch: once, all that is learned from"
    )
    normalize_observation: bool = option(True, "by streaming mean and deviation")
    observation_clip: float = option(
        10.0, "largest magnitude of a normalized observation", above=0
    )
    normalize_floor: float = option(
        moments.FLOOR,
        "least deviation that observations and rewards are divided by",
        above=0,
    )
    normalize_epsilon: float = option(
        0.0, "added to the variance of that deviation", least=0
    )
    normalize_return: moments.RewardKind = option(
        True, "divide rewards by the deviation of returns; per_step: by that of rewards"
    )
    reward_clip: float = option(10.0, "largest magnitude of a divided reward", above=0)
    histograms: bool = option(
        True, "of actions, values, divergences, weights, gradients and statistics"
    )
    network: networks.Config = option(networks.Config(), "shape of the network")

    # Without which weights and statistics are another agent; what changes shapes
    # need not be here. See ``training.warm_start``.
    OF_AGENT: ClassVar[tuple[str, ...]] = (
        *("normalize_observation", "normalize_return"),
        *("network.activation", "network.mean", "network.std", "network.squash"),
        *("network.min_std", "network.max_std"),
    )

    def check(self) -> Config:
        config = super().check()
        if config.drop_rest and config.minibatch_size is None:
            raise UserError(
                "drop_rest is true, but minibatch_size is none: everything is one "
                "minibatch, and there is no rest; give a minibatch_size, or leave "
                "drop_rest out"
            )
        return dataclasses.replace(config, network=config.network.check("network."))
