"""On-policy experience: rollouts of fixed length, or whole episodes.

Rollouts may go on without the slowest environments, see ``async_rollout``.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.devices.placement import HOST, Placement
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Algorithm, Env
from tfagents_batch.sources import episodes
from tfagents_batch.sources.async_rollout import AsyncRollout, make_groups
from tfagents_batch.sources.episodes import Episodes
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.types import EnvSpec, RemotePlan


@dataclasses.dataclass(frozen=True)
class RolloutSettings:
    """Settings of on-policy experience; an ``experience.Experience``."""

    name: ClassVar[str] = "rollout"
    kind: ClassVar[str] = "rollouts"
    unit: ClassVar[str] = "env steps"
    program: ClassVar[str] = "synchronous"
    beside: ClassVar[int] = 0

    length: int = option(
        256,
        "steps per environment and iteration (Stable-Baselines3: n_steps)",
        least=1,
        most=1_000_000,
        instead_of="episodes",
    )
    episodes: int | None = option(
        None,
        "episodes per iteration, instead of rollout.length; a multiple of num_envs",
        least=1,
        most=1_000_000,
    )
    wait_for: int | None = option(
        None,
        "environments that a step waits for, the first that are ready; none: all",
        least=1,
    )

    @property
    def takes_turns(self) -> bool:
        """True if nothing is under way between collecting and an update."""
        return self.wait_for is None

    def check(self, run: Any) -> Self:
        """Return the checked settings, see ``experience.Experience``."""
        checked = config.check(self, "rollout.")
        reason = run.settings.accepts()[self.kind].whole_episodes
        if reason and checked.episodes is None:
            raise UserError(
                f"{reason} needs whole episodes, but rollout.episodes is none; set "
                "--rollout.episodes, or choose another setting"
            )
        if checked.episodes is None:
            return checked
        episodes.rounds(checked.episodes, run.num_envs, "rollout.episodes")
        if checked.wait_for is not None:
            raise UserError(
                "rollout.wait_for and rollout.episodes are both set, but whole "
                "episodes wait for every environment; leave one of them out"
            )
        return checked

    def environments(self, recipe: Any, run: Any) -> tuple[tuple[Env, ...], EnvSpec]:
        """Create the environments; workers are groups if a step waits for some."""
        options = run.make_options(run.num_envs)
        if self.wait_for is None:
            env = recipe.make(run.num_envs, **options)
        else:
            name = "rollout.wait_for"
            env = make_groups(recipe, run.num_envs, self.wait_for, name, options)
        if self.episodes is not None:
            with recipe.closing_on_error(env):
                episodes.longest(env.spec)
        return (env,), env.spec

    def transitions(self, num_envs: int, max_episode_steps: int | None) -> int:
        """Return the largest number of transitions of one collect."""
        if self.episodes is not None and max_episode_steps is not None:
            return self.episodes * max_episode_steps
        return num_envs * self.length

    def open(
        self,
        envs: tuple[Env, ...],
        algorithm: Algorithm,
        seed: int,
        run: Any,
        placement: Placement = HOST,
    ) -> Rollout | Episodes | AsyncRollout:
        """Start the environments and return the source.

        Episodes do not use the seed: each call starts with the seed of its iteration,
        so no episode is played twice.
        """
        (env,) = envs
        # A separate one beside an update, so that acting never reads what it writes.
        own = run.overlap or not placement.whole
        with placement.collecting():
            policy = algorithm.make_policy() if own else algorithm.policy
            if self.episodes is not None:
                return Episodes(env, policy, self.episodes, info=run.log_info)
            if self.wait_for is not None:
                waits = self.wait_for, seed, run.log_info
                return AsyncRollout(env, policy, self.length, *waits)
            return Rollout(env, policy, self.length, seed, info=run.log_info)

    def remote_plan(self, run: Any, parts: int) -> RemotePlan:
        """Return how workers of a pool collect, see ``experience.Experience``."""
        if self.wait_for is not None:
            raise UserError(
                f"rollout.wait_for is {self.wait_for}, but workers of a pool step all "
                "their environments; leave it out"
            )
        order = "ahead" if run.overlap else "in turn"
        if self.episodes is not None:
            return RemotePlan(order, parts, 0, self.episodes // parts, whole=True)
        return RemotePlan(order, parts, self.length, run.num_envs // parts)
