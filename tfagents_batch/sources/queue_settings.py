"""Settings of asynchronous experience, see ``predictors``."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import Any, ClassVar, Self

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.devices.placement import HOST, Placement
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Algorithm, Env
from tfagents_batch.sources.async_rollout import make_groups
from tfagents_batch.sources.predictors import Predictors
from tfagents_batch.types import EnvSpec, RemotePlan

_REMOTE = "length", "train_batch"  # settings that mean something in a pool, too


@dataclasses.dataclass(frozen=True)
class QueueSettings:
    """Settings of predictors and their queue; an ``experience.Experience``."""

    name: ClassVar[str] = "queue"
    kind: ClassVar[str] = "rollouts"
    unit: ClassVar[str] = "env steps"
    program: ClassVar[str] = "host"
    takes_turns: ClassVar[bool] = False

    length: int = option(
        5,
        "largest number of steps of an environment in a rollout",
        least=1,
        most=10_000,
    )
    predictors: int = option(
        1, "threads that select actions, each for its share of environments", least=1
    )
    predict_batch: int | None = option(
        None,
        "environments whose actions are selected at once, the first that are ready; "
        "none: half of a predictor's",
        least=1,
    )
    rollouts_per_call: int | None = option(
        None,
        "rollouts that a predictor collects in one program, a power of two; more save "
        "time between programs and raise the lag. none: 8, or 1 without XLA",
        least=1,
        most=1024,
    )
    train_batch: int = option(
        40, "minimum number of transitions per update, if no episode ends", least=1
    )
    capacity: int | None = option(
        None,
        "most transitions in the queue; none: the larger of 160 and train_batch",
        least=1,
    )
    adjust: bool = option(
        False,
        "adjust the numbers of agents, predictors and batches during the run; num_envs "
        "and queue.predictors are then the largest",
    )
    adjust_seconds: float = option(
        20.0, "seconds of a measurement of adjusting", above=0
    )
    adjust_lag: float = option(
        50.0, "mean lag above which a setting is less good, for adjusting", least=0
    )
    max_lag: int | None = option(
        None,
        "drop rollouts collected with weights more than this many updates old; none: "
        "no limit",
        least=0,
    )

    @property
    def beside(self) -> int:
        """Predictors run beside the updates."""
        return self.predictors

    @property
    def room(self) -> int:
        """The number of transitions that may wait for an update."""
        return self.capacity or max(160, self.train_batch)

    def rollouts(self, compiled: bool) -> int:
        """Return the number of rollouts of a predictor's program."""
        return self.rollouts_per_call or (8 if compiled else 1)

    def waits_for(self, num_envs: int, workers: int) -> int:
        """Return for how many environments a predictor selects actions at once."""
        if self.predict_batch is not None:
            return self.predict_batch
        size = num_envs // max(workers, 1)
        return max(workers // 2, 1) * size

    def check(self, run: Any) -> Self:
        """Return the checked settings, see ``experience.Experience``."""
        checked = config.check(self, "queue.")
        if run.overlap:
            raise UserError(
                "overlap is true, but predictors collect beside updates anyway; leave "
                "overlap out"
            )
        if reason := run.settings.accepts()[self.kind].whole_episodes:
            raise UserError(
                f"{reason} needs whole episodes, which predictors do not collect; "
                "choose another setting"
            )
        if run.num_envs % checked.predictors:
            raise UserError(
                f"queue.predictors is {checked.predictors}; expected a divisor of the "
                f"{run.num_envs} environments, because each has the same number"
            )
        if checked.room < checked.train_batch:
            raise UserError(
                f"queue.capacity is {checked.capacity}; expected at least "
                f"queue.train_batch, {checked.train_batch}"
            )
        rollouts = checked.rollouts_per_call or 1
        if rollouts & (rollouts - 1):
            raise UserError(
                f"queue.rollouts_per_call is {rollouts}; expected a power of two"
            )
        return checked

    def environments(self, recipe: Any, run: Any) -> tuple[tuple[Env, ...], EnvSpec]:
        """Create the environments of each predictor."""
        parts = self.predictors
        if recipe.exists:
            raise UserError(
                f"env is a {type(recipe.env).__name__}, but predictors need "
                "environments of their own; pass a name, or a function that creates "
                "one environment"
            )
        size = run.num_envs // parts
        options = run.make_options(size)
        if run.num_workers is not None:
            if run.num_workers % parts:
                raise UserError(
                    f"num_workers is {run.num_workers}; expected a multiple of the "
                    f"{parts} predictors"
                )
            options["num_workers"] = min(run.num_workers // parts, size)
        workers = options["num_workers"]
        wait_for = self.waits_for(size, size if workers is None else workers)
        with contextlib.ExitStack() as stack:
            envs = []
            for index in range(parts):
                part = recipe.part(index * size, size)
                name = "queue.predict_batch"
                envs.append(make_groups(part, size, wait_for, name, options))
                stack.callback(envs[-1].close)
            stack.pop_all()  # all are there, and the run closes them
        return tuple(envs), envs[0].spec._replace(num_envs=run.num_envs)

    def transitions(self, num_envs: int, max_episode_steps: int | None) -> int:
        """Return the number of transitions of an update."""
        del num_envs, max_episode_steps
        return self.train_batch

    def open(
        self,
        envs: tuple[Env, ...],
        algorithm: Algorithm,
        seed: int,
        run: Any,
        placement: Placement = HOST,
    ) -> Predictors:
        """Start the environments and return the predictors, see ``Experience``."""
        return Predictors(envs, algorithm, self, seed, run.log_info, placement)

    def remote_plan(self, run: Any, parts: int) -> RemotePlan:
        """Return how workers of a pool collect, see ``experience.Experience``."""
        usual = dataclasses.asdict(QueueSettings())
        for name, value in dataclasses.asdict(self).items():
            if name not in _REMOTE and value != usual[name]:
                raise UserError(
                    f"queue.{name} is {value}, but it is for predictors in this "
                    "process; leave it out, or --pool"
                )
        streams = run.num_envs // parts
        needed = math.ceil(self.train_batch / (self.length * streams))
        return RemotePlan("free", needed, self.length, streams)
