"""Settings of DQN."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from tfagents_batch import config
from tfagents_batch.algorithms.shared import alarms, off_policy
from tfagents_batch.config import inherited, number, option
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Limit
from tfagents_batch.nn import q_network
from tfagents_batch.ops import td
from tfagents_batch.ops.value_distributions import (
    Categorical,
    Distribution,
    Mean,
    Quantiles,
)
from tfagents_batch.schedules import Constant, Linear, Schedule
from tfagents_batch.types import EnvSpec, UpdateSize

_OUTSIDE = Limit(
    "returns_outside_bounds",
    "value/outside",
    above=0.2,
    lines=3,
    text="{value/outside:.0%} of the targets lie outside of C51's bounds, so values "
    "cannot be right. What to try: --algorithm.v_min and --algorithm.v_max that "
    "contain all discounted returns; --algorithm.distribution=qr, which has no bounds",
)


@dataclasses.dataclass(frozen=True)
class Munchausen:
    """Settings of Munchausen targets."""

    alpha: float = number(0.9, "weight of the log-policy in rewards", least=0, most=1)
    temperature: float = number(
        0.03, "temperature tau of the policy softmax(Q / tau)", above=0
    )
    clip: float = number(-1.0, "smallest log-policy term tau ln pi", most=0)


@dataclasses.dataclass(frozen=True)
class Config(off_policy.Settings):
    """Settings of DQN.

    The defaults are tuned on CartPole-v1, Acrobot-v1 and LunarLander-v3, so that the
    last checkpoint is a good one. Targets of 3 rewards learn faster than those of one
    (Hessel et al. 2018). Double targets (van Hasselt et al. 2016), a target network
    that moves slowly and a learning rate that decreases keep what was learned.
    """

    n_step: int = inherited(off_policy.Settings, "n_step", default=3)
    learning_rate: Schedule = number(
        Linear(1e-3, 1e-4, 100_000), "learning rate of the optimizer", least=0
    )
    max_gradient_norm: float | None = number(
        10.0,
        "largest global norm of the gradient; none: any (Stable-Baselines3: "
        "max_grad_norm)",
        above=0,
    )
    batch_size: int = inherited(off_policy.Settings, "batch_size", default=128)
    train_every: int = inherited(off_policy.Settings, "train_every", default=4)
    target_tau: float = number(
        0.01,
        "step of the target network to the learned one (Stable-Baselines3: tau)",
        above=0,
        most=1,
    )
    epsilon: Schedule | None = number(
        None,
        "probability of a random action; none: linear(1, 0.05, 10000), or 0 if noisy "
        "networks or a temperature explore",
        least=0,
        most=1,
        group="exploration",
    )
    temperature: Schedule | None = number(
        None,
        "temperature of softmax exploration; none: actions of the largest value",
        above=0,
        group="exploration",
    )
    target: Literal["max", "double", "sarsa", "munchausen"] = option(
        "double",
        "bootstrap: max (Q-learning), double (double DQN), sarsa or munchausen",
    )
    munchausen: Munchausen = option(Munchausen(), "settings of Munchausen targets")
    cql_scale: float = option(
        0.0,
        "weight of CQL's loss, which lowers values of actions that were not logged; "
        "0: none",
        least=0,
    )
    distribution: Literal["mean", "c51", "qr"] = option(
        "mean", "learned statistic of returns: mean, categories (c51) or quantiles (qr)"
    )
    atoms: int = option(51, "number of categories or quantiles", least=2)
    v_min: float = option(-10.0, "smallest return of C51")
    v_max: float = option(10.0, "largest return of C51")
    loss: td.Loss = option("huber", "loss of the TD error; not for C51 and QR")
    network: q_network.Config = option(q_network.Config(), "shape of the network")

    # Settings that change the meaning of saved weights, see ``training.warm_start``.
    OF_AGENT: ClassVar[tuple[str, ...]] = (
        "network.activation",
        "network.dueling",
        "distribution",
        "v_min",
        "v_max",
    )

    @property
    def exploration(self) -> Schedule:
        """Probability of a random action."""
        if self.epsilon is not None:
            return self.epsilon
        explores = self.network.noisy or self.temperature is not None
        return Constant(0.0) if explores else Linear(1.0, 0.05, 10_000)

    @property
    def window(self) -> int:
        """Steps of a window; SARSA needs the action of the last one."""
        return self.n_step + 1 + (self.target == "sarsa")

    def check(self) -> Config:
        """Return the checked settings.

        Raises:
          UserError: for a setting that is invalid.
        """
        checked = super().check()
        if self.distribution == "c51" and not checked.v_min < checked.v_max:
            raise UserError(
                f"v_min is {checked.v_min} and v_max is {checked.v_max}, so no return "
                "lies between them; set --algorithm.v_min to the smallest and "
                "--algorithm.v_max to the largest discounted return of an episode"
            )
        munchausen = config.check(checked.munchausen, "munchausen.")
        return dataclasses.replace(checked, munchausen=munchausen)

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        """Return the limits of metrics, see ``interfaces.Algorithm``."""
        del spec
        return (
            off_policy.diverging_values(
                10,
                self.gamma,
                "rewards of about 1; lower --algorithm.learning_rate; "
                "--algorithm.target=double; a larger --algorithm.target_every",
            ),
            _OUTSIDE,
            *alarms.small_returns(),
        )

    def update_size(self, collected: int) -> UpdateSize:
        """Return the size of a batch, see ``interfaces.Algorithm``."""
        del collected
        return UpdateSize(self.batch_size, self.network.hidden or q_network.HIDDEN)

    def values(self) -> Distribution:
        """Return what the network's outputs of an action mean."""
        if self.distribution == "c51":
            return Categorical(self.atoms, self.v_min, self.v_max)
        return Quantiles(self.atoms) if self.distribution == "qr" else Mean(self.loss)
