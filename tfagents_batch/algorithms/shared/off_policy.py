"""Settings of algorithms that learn from logged rows, and of those with a replay."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal, Self

from tfagents_batch import schedules
from tfagents_batch.algorithms.shared import alarms, sequences
from tfagents_batch.algorithms.shared.normalization import NormalizationSettings
from tfagents_batch.algorithms.shared.optimization import OptimizerSettings
from tfagents_batch.clocks import Ratio
from tfagents_batch.config import number, option
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Limit
from tfagents_batch.nn import actor
from tfagents_batch.nn.critics import CriticConfig
from tfagents_batch.schedules import Schedule
from tfagents_batch.types import (
    Accepts,
    DefaultSource,
    EnvSpec,
    Rows,
    UpdateSize,
    Windows,
)


@dataclasses.dataclass(frozen=True)
class RowSettings(OptimizerSettings):
    """Settings that all algorithms of logged rows have."""

    batch_size: int = option(256, "transitions per update", least=1, group="update")

    source: ClassVar[DefaultSource] = "table", {}
    OF_AGENT: ClassVar[tuple[str, ...]] = ("network.activation",)
    # Those of algorithms with critics: layers of critics are taken one by one.
    WITH_CRITICS: ClassVar[tuple[str, ...]] = (
        *OF_AGENT,
        "critic.hidden",
        "critic.layer_norm",
    )

    def accepts(self) -> Accepts:
        return {"rows": Rows(self.batch_size)}

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        return ()


@dataclasses.dataclass(frozen=True)
class RowValueSettings(RowSettings):
    """Settings of values and target networks that learn from logged rows."""

    gamma: float = number(0.99, "discount factor per step", least=0, most=1)
    target_every: int = option(
        1,
        "updates per update of targets (Stable-Baselines3: target_update_interval)",
        least=1,
        group="update",
    )
    target_tau: float = number(
        0.005,
        "step of target networks to the learned ones (Stable-Baselines3: tau)",
        above=0,
        most=1,
        group="update",
    )

    def accepts(self) -> Accepts:
        """Return that it learns from rows, and the discount factor of its values."""
        return {"rows": Rows(self.batch_size, self.gamma)}


@dataclasses.dataclass(frozen=True)
class RowActorCriticSettings(RowValueSettings):
    """Settings of an actor and critics that learn from logged rows."""

    num_critics: int = option(
        2,
        "number of critics; targets use their minimum (Stable-Baselines3: n_critics)",
        least=1,
        most=10,
    )
    network: actor.RowActorConfig = option(
        actor.RowActorConfig(), "shape of the networks"
    )
    critic: CriticConfig = option(CriticConfig(), "settings of the critics")

    OF_AGENT: ClassVar[tuple[str, ...]] = RowSettings.WITH_CRITICS

    def alarms(self, spec: EnvSpec | None = None) -> tuple[Limit, ...]:
        """Return the limit of values."""
        return (alarms.large_critics(self.gamma),)


@dataclasses.dataclass(frozen=True)
class OffPolicySettings(NormalizationSettings, RowValueSettings):
    """Settings that all algorithms with a replay have; some only learn from rows.

    Resets (Nikishin et al. 2022, arXiv:2205.07802) keep the replay and lose what was
    learned from its first steps too often, see ``resets.Resets``.
    """

    n_step: int = option(1, "number of rewards in a target, n", least=1, most=1000)
    train_every: int = option(
        1,
        "environment steps per training (Stable-Baselines3: train_freq)",
        least=1,
        most=1_000_000,
        group="update",
    )
    train_updates: int = option(
        1,
        "updates per training (Stable-Baselines3: gradient_steps)",
        least=1,
        most=1_000_000,
        group="update",
    )
    warmup_steps: int = option(
        1000,
        "environment steps before training (Stable-Baselines3: learning_starts)",
        least=0,
        group="update",
    )
    sequence_length: int | None = option(
        None,
        "with network.core, steps of a window of the replay; none: 40",
        least=1,
        most=1000,
        group="memory",
    )
    burn_in: int | None = option(
        None,
        "with network.core, first steps of a window, which only build the recurrent "
        "state; none: a quarter of sequence_length",
        least=0,
        group="memory",
    )
    stored_state: bool = option(
        True,
        "with network.core, windows begin with the recurrent state of acting, which is "
        "stored; false: with zeros",
        group="memory",
    )
    reset_every: int | None = number(
        None,
        "updates between resets of networks and optimizers; none: never",
        least=1,
        group="update",
    )
    warmup: Literal["auto", "random", "policy"] = option(
        "auto",
        "who acts before training: random, or the policy; auto: the policy with "
        "init_from",
        group="update",
    )

    source: ClassVar[DefaultSource] = "replay", {}

    @property
    def random_steps(self) -> int:
        """Environment steps with random actions, at the start of a run."""
        return 0 if self.warmup == "policy" else self.warmup_steps

    def begun(self, schedule: Schedule) -> Schedule:
        """Return a schedule of exploration as the run begins it.

        A policy that acts before training has learned already, so it begins with the
        end of the schedule (Zhou et al. 2024, WSRL, arXiv 2412.07762).
        """
        return schedules.end(schedule) if self.warmup == "policy" else schedule

    def check(self) -> Self:
        checked = super().check()
        core = checked.network.core
        usual = {"sequence_length": None, "burn_in": None, "stored_state": True}
        sequences.check_core(checked, **usual)
        if checked.learned < 1:
            raise UserError(
                f"burn_in is {checked.burned}, but windows have {checked.sequence} "
                "steps, so none is left to learn from; lower --algorithm.burn_in or "
                "raise --algorithm.sequence_length"
            )
        if checked.reset_every is not None and core != "none":
            raise UserError(
                f"reset_every is {checked.reset_every}, but network.core is {core}, "
                "whose weights cannot be drawn again; leave one of the two out"
            )
        return checked

    @property
    def sequence(self) -> int:
        """Steps of a window that have a target or build the state."""
        if self.network.core == "none":
            return 1
        return 40 if self.sequence_length is None else self.sequence_length

    @property
    def burned(self) -> int:
        """First steps of a window, which only build the state."""
        return self.sequence // 4 if self.burn_in is None else self.burn_in

    @property
    def learned(self) -> int:
        """Steps of a window that begin a transition."""
        return self.sequence - self.burned

    @property
    def records_state(self) -> bool:
        """Whether acting records its recurrent state."""
        return self.network.core != "none" and self.stored_state

    @property
    def window(self) -> int:
        """Steps of a window: those around the n rewards of the last target."""
        return self.sequence + self.n_step

    @property
    def no_rows(self) -> str:
        """Reason why windows cannot be mixed with logged rows; empty if they can."""
        if self.network.core == "none":
            return ""
        return (
            f"network.core={self.network.core} needs the steps before a row, which a "
            "row lacks; set --algorithm.network.core=none"
        )

    def update_size(self, transitions: int) -> UpdateSize:
        size = super().update_size(transitions)
        return size._replace(rows=size.rows * self.learned)

    def accepts(self) -> Accepts:
        """Return that it learns from windows, unless it is for logged rows, and rows.

        Rows hold their n rewards already, so an algorithm with a replay takes them with
        n = 1 only. They have no steps before, so networks have no memory.
        """
        collecting = "train_every", "train_updates", "warmup_steps", "warmup"
        collecting += "reset_every", "observation_clip", "reward_clip"
        collecting += self.OF_NORMALIZATION
        rows = {"rows": Rows(self.batch_size, self.gamma, collecting)}
        if self.source[0] == "table":
            return rows
        ratio = Ratio(self.train_updates, self.train_every, self.warmup_steps)
        core, recorded = self.network.core, 0
        if self.records_state:
            recorded = self.network.units[-1] * (2 if core == "lstm" else 1)
        target = self.n_step, self.gamma, self.no_rows, recorded
        windows = {"windows": Windows(self.batch_size, self.window, ratio, *target)}
        alone = self.n_step == 1 and core == "none"
        return windows | (rows if alone else {})
