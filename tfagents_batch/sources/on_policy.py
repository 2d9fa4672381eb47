"""Settings of on-policy experience: rollouts of fixed length, or whole episodes.

Rollouts may go on without the slowest environments, see ``async_rollout``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Actor, Algorithm, Env
from tfagents_batch.sources import episodes
from tfagents_batch.sources.async_rollout import AsyncRollout
from tfagents_batch.sources.delayed import Delayed
from tfagents_batch.sources.episodes import Episodes
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.types import EnvSpec


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of an on-policy source."""

    overlaps: ClassVar[bool] = True  # collecting may go on during an update
    waits_for_name: ClassVar[str] = "rollout.wait_for"

    length: int = option(
        256, "steps per environment and iteration", least=1, most=1_000_000
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

    lag: int = option(
        0,
        "updates by which the policy that acts is older, to study what that does",
        least=0,
        most=10_000,
    )

    def changed(self, overrides: Mapping[str, Any]) -> Config:
        """Return the settings with overrides; the length replaces the episodes.

        Raises:
          UserError: for an unknown setting, a wrong value, or if both are given.
        """
        changes = dict(overrides)
        if changes.get("length") is not None:
            changes.setdefault("episodes", None)
        if None not in (changes.get("length"), changes.get("episodes")):
            raise UserError(
                f"rollout.length is {changes['length']} and rollout.episodes is "
                f"{changes['episodes']}, and both set how much data an update gets; "
                "pass only one of them: steps per environment, or whole episodes"
            )
        return config.replace(self, changes, "rollout.")

    def check(self, num_envs: int) -> Config:
        """Return the checked settings.

        Raises:
          UserError: for a setting that is invalid.
        """
        checked = config.check(self, "rollout.")
        if checked.lag and (checked.episodes, checked.wait_for) != (None, None):
            raise UserError(
                f"rollout.lag is {checked.lag}, which needs rollouts of one length; "
                "leave rollout.episodes and rollout.wait_for out"
            )
        if checked.episodes is not None:
            episodes.rounds(checked.episodes, num_envs, "rollout.episodes")
            if checked.wait_for is not None:
                raise UserError(
                    "rollout.wait_for and rollout.episodes are both set, but whole "
                    "episodes wait for every environment; leave one of them out"
                )
        return checked

    @property
    def takes_turns(self) -> bool:
        """Whether nothing is under way between collecting and an update."""
        return self.wait_for is None and not self.lag

    @property
    def groups_of_one(self) -> bool:
        """Whether each environment needs a worker process and group of its own."""
        return self.wait_for is not None

    def waits_for(self, num_envs: int, workers: int) -> int:
        """Return the number of environments that a step waits for."""
        del workers
        return self.wait_for or num_envs

    def check_fits(self, spec: EnvSpec, algorithm: Algorithm) -> None:
        """Check that environments and algorithm fit the settings.

        Raises:
          UserError: if whole episodes are asked for and their limit is not known, or
            if the algorithm needs them.
        """
        if self.episodes is None and getattr(algorithm, "whole_episodes", False):
            raise UserError(
                "baseline=time_step needs whole episodes, but rollout.episodes is "
                "none; set --rollout.episodes, or use another --algorithm.baseline"
            )
        if self.episodes is not None:
            episodes.longest(spec)

    def collected(self, num_envs: int, max_episode_steps: int | None) -> int:
        """Return the largest number of transitions of one collect."""
        if self.episodes is not None and max_episode_steps is not None:
            return self.episodes * max_episode_steps
        return num_envs * self.length


def make(
    config: Config,
    env: Env,
    policy: Actor,
    seed: int,
    algorithm: Algorithm,
    info: Sequence[str] = (),
) -> Rollout | Episodes | AsyncRollout | Delayed:
    """Return the source of an algorithm.

    Args:
      config: settings of the source.
      env: environments to step.
      policy: policy that acts.
      seed: seed of the environments. Episodes do not use it: each call starts with the
        seed of its iteration, so no episode is played twice.
      algorithm: the algorithm that learns; another policy of it acts with a lag.
      info: info columns to report, see ``metrics.episode_info_metrics``.
    """
    if config.lag:
        rollout = Rollout(env, algorithm.make_policy(), config.length, seed, info=info)
        return Delayed(rollout, algorithm.policy, config.lag)
    if config.episodes is not None:
        return Episodes(env, policy, config.episodes, info=info)
    if config.wait_for is not None:
        return AsyncRollout(env, policy, config.length, config.wait_for, seed, info)
    return Rollout(env, policy, config.length, seed, info=info)
