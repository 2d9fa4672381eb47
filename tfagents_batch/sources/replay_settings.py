"""Off-policy experience: a replay of what a policy collects."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any, ClassVar, Self

from tfagents_batch import config
from tfagents_batch.config import number, option
from tfagents_batch.devices import machine
from tfagents_batch.devices.placement import HOST, Placement
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Algorithm, Env
from tfagents_batch.logged import table_settings
from tfagents_batch.logged.table_settings import TableSettings
from tfagents_batch.schedules import Constant, Linear, Schedule
from tfagents_batch.sources import hindsight, prior, replay_layout
from tfagents_batch.sources.replay import Replay
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.types import EnvSpec, RemotePlan, Trajectory

_LOG = logging.getLogger("tfagents_batch")


@dataclasses.dataclass(frozen=True)
class ReplaySettings:
    """Settings of the replay; an ``experience.Experience``."""

    name: ClassVar[str] = "replay"
    kind: ClassVar[str] = "windows"
    unit: ClassVar[str] = "env steps"
    program: ClassVar[str] = "synchronous"
    beside: ClassVar[int] = 0
    takes_turns: ClassVar[bool] = False

    capacity: int = option(
        1_000_000,
        "transitions of all environments together (Stable-Baselines3: buffer_size)",
        least=1,
    )
    steps: int | None = option(
        None,
        "steps of each environment between updates; none: train_every / num_envs, "
        "rounded up",
        least=1,
    )
    stack: int | None = option(
        None,
        "frames per observation if it is a frame stack: stores each frame once",
        least=2,
    )
    prioritized: bool = option(
        False, "sample by priority (Schaul et al. 2016) instead of uniformly"
    )
    alpha: float = number(
        0.6, "exponent of priorities, alpha; 0 samples uniformly", least=0, most=1
    )
    beta: Schedule = number(
        Linear(0.4, 1.0), "exponent of importance weights, beta", least=0, most=1
    )
    epsilon: float = number(
        1e-6, "constant added to the absolute TD error, epsilon", above=0
    )
    prior: str = option(
        "", "folder of a timeline whose rows are a share of every batch; empty: none"
    )
    prior_share: Schedule = number(
        Constant(0.5), "share of a batch that is rows of prior", least=0, most=1
    )
    her: hindsight.Strategy = option(
        "none",
        "goals of most windows (HER): future, one that their episode reached later; "
        "final, the newest one; none: their own (Stable-Baselines3: "
        "goal_selection_strategy)",
    )
    her_goals: int = option(
        4,
        "with her, windows with another goal for each one that keeps its own "
        "(Stable-Baselines3: n_sampled_goal)",
        least=1,
    )

    save_every: float = option(
        600.0,
        "seconds between saves of the replay, also saved at the end; 0: only then",
        least=0,
        resumable=True,
        same_curve=True,
    )

    def check(self, run: Any) -> Self:
        """Return the checked settings, see ``experience.Experience``."""
        checked = config.check(self, "replay.")
        if run.overlap:
            raise UserError(
                "overlap is true, but a replay cannot be written and sampled at the "
                "same time; leave overlap out"
            )
        wanted = run.settings.accepts()[self.kind]
        start = wanted.ratio.start
        if start >= run.steps:
            raise UserError(
                f"warmup_steps is {start}, but the run has {run.steps} steps, so "
                "nothing would be learned; lower --algorithm.warmup_steps or raise "
                "--steps"
            )
        least = wanted.length * run.num_envs
        if start < least and getattr(run.settings.network, "core", "none") != "none":
            raise UserError(
                f"warmup_steps is {start}, but {run.num_envs} environments need "
                f"{least} steps until there is a window of {wanted.length} steps to "
                f"learn from; set --algorithm.warmup_steps={least} or more"
            )
        if checked.prior:
            prior.check(checked, wanted)
        if checked.her != "none":
            checked._check_her(run.pool, wanted.recorded)
        return checked.resolved(run)

    def _check_her(self, pool: str, recorded: int) -> None:
        """Refuse what cannot have other goals."""
        for name, value in {
            "replay.stack": self.stack,
            "replay.prior": self.prior,
            "pool": pool != "none",
            "--algorithm.stored_state=true": recorded,
        }.items():
            if value:
                raise UserError(
                    f"replay.her is {self.her}, which is not possible with {name}; "
                    "leave one of the two out"
                )

    def resolved(self, run: Any) -> Self:
        """Return the settings with ``steps``: by default those of one training.

        As Stable-Baselines3 does, a run then collects ``train_every`` steps, and makes
        all their updates afterwards. config.json has None, so a new run that takes the
        settings for another number of environments has its own steps.
        """
        if self.steps is not None:
            return self
        ratio = run.settings.accepts()[self.kind].ratio
        return dataclasses.replace(self, steps=math.ceil(ratio.steps / run.num_envs))

    @property
    def length(self) -> int:
        """Steps of each environment in a collect; 1 if no run has set them."""
        return self.steps or 1

    def located(self) -> Self:
        """Return the settings with the path of the newest rows, see ``Located``."""
        if not self.prior:
            return self
        return dataclasses.replace(self, prior=table_settings.newest(self.prior).data)

    @property
    def fingerprint(self) -> str | None:
        """Text that changes with the rows, see ``experience.Experience``."""
        return TableSettings(self.prior).fingerprint if self.prior else None

    def training_rows(self) -> dict[str, Any] | None:
        """Return which logged episodes training sees; None without prior rows."""
        return TableSettings(self.prior).training_rows() if self.prior else None

    def environments(self, recipe: Any, run: Any) -> tuple[tuple[Env, ...], EnvSpec]:
        """Create the environments."""
        env = recipe.make(run.num_envs, **run.make_options(run.num_envs))
        return (env,), env.spec

    def check_memory(self, spec: EnvSpec, run: Any, placement: Placement) -> None:
        """Refuse a replay without room for its windows, or too large for its device.

        Its prior rows are checked, too: their spaces, and that they fit beside it.
        """
        wanted = run.settings.accepts()[self.kind]
        sizes = replay_layout.ring(self, spec.num_envs, wanted.length)
        replay_layout.check_capacity(self.capacity, wanted.batch_size, sizes)
        with placement.updating():
            size = wanted.length, wanted.recorded
            needed = replay_layout.required_bytes(self, spec, *size)
        rows = 0
        if self.prior:
            prior.check_spaces(self, spec)
            rows = prior.required_bytes(self)
        replay_layout.check_memory(needed, placement, rows)
        amount = machine.amount(needed)
        _LOG.info("replay: %s transitions, %s", f"{self.capacity:,}", amount)

    def transitions(self, num_envs: int, max_episode_steps: int | None) -> int:
        """Return the number of transitions of one collect."""
        del max_episode_steps
        return num_envs * self.length

    def open(
        self,
        envs: tuple[Env, ...],
        algorithm: Algorithm,
        seed: int,
        run: Any,
        placement: Placement = HOST,
    ) -> Replay:
        """Start the environments and return the replay, see ``Experience``."""
        with placement.collecting():
            own = not placement.whole
            policy = algorithm.make_policy() if own else algorithm.policy
            rollout = Rollout(envs[0], policy, self.length, seed, info=run.log_info)
            like = rollout.outline()
        with placement.updating():
            goals = None
            if self.her != "none":
                goals = hindsight.of(self.her, self.her_goals, envs[0])
            return self.storage(rollout, like, algorithm, goals)

    def storage(
        self,
        inner: Any,
        like: Trajectory,
        algorithm: Algorithm,
        goals: hindsight.Hindsight | None = None,
    ) -> Replay:
        """Return the replay of what ``inner`` collects, trajectories as ``like``."""
        wanted = algorithm.config.accepts()[self.kind]
        rows = prior.open_rows(self, wanted) if self.prior else None
        return Replay(inner, self, like, wanted, rows, goals)

    def remote_plan(self, run: Any, parts: int) -> RemotePlan:
        """Return how workers of a pool collect, see ``experience.Experience``."""
        streams = run.num_envs // parts
        return RemotePlan("ahead", parts, self.length, streams, marks=True)
