"""Settings of the replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from tfagents_batch import config, machine
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.schedules import Linear, Schedule
from tfagents_batch.sources.replay import memory
from tfagents_batch.types import EnvSpec


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of the replay, all flags ``--replay.<name>``."""

    capacity: int = option(
        1_000_000, "capacity in transitions of all environments together", least=1
    )
    steps: int = option(1, "env steps per environment and collect, k", least=1)
    stack: int | None = option(
        None,
        "frames per observation if it is a frame stack: stores each frame once",
        least=2,
    )
    prioritized: bool = option(
        False, "sample by priority (Schaul et al. 2016) instead of uniformly"
    )
    alpha: float = option(
        0.6, "exponent of priorities, alpha; 0 samples uniformly", least=0, most=1
    )
    beta: Schedule = option(
        Linear(0.4, 1.0), "exponent of importance weights, beta", least=0, most=1
    )
    epsilon: float = option(
        1e-6, "constant added to the absolute TD error, epsilon", above=0
    )

    save_every: float = option(
        600.0,
        "seconds between saves of the replay, also saved at the end; 0: only then",
        least=0,
        resumable=True,
        same_curve=True,
    )

    overlaps: ClassVar[bool] = False  # collecting and updating would wait for a lock

    def changed(self, overrides: Mapping[str, Any]) -> Config:
        """Return the settings with overrides.

        Raises:
          UserError: for an unknown setting or a wrong value.
        """
        return config.replace(self, overrides, "replay.")

    def check(self, num_envs: int = 1) -> Config:
        """Return the settings with values converted to their types.

        Raises:
          UserError: with the name of the setting, its value and what was expected.
        """
        del num_envs
        return config.check(self, "replay.")

    def check_fits(self, spec: EnvSpec, algorithm: Algorithm) -> None:
        """Check that environments and algorithm fit the settings.

        Raises:
          UserError: for a recurrent policy, a capacity that is too small, or a replay
            that memory cannot hold.
        """
        if getattr(algorithm.policy, "recurrent", False):
            raise UserError(
                "the network is recurrent, but recurrent networks cannot be trained "
                "from a replay; use a network without memory, or algorithm=ppo"
            )
        sizes = memory.layout(self, spec.num_envs, algorithm.window)
        memory.check_capacity(self.capacity, algorithm.batch_size, sizes)
        needed = memory.required_bytes(self, spec, algorithm.window)
        memory.check(needed, machine.available_bytes())

    def collected(self, num_envs: int, max_episode_steps: int | None) -> int:
        """Return the number of transitions of one collect."""
        del max_episode_steps
        return num_envs * self.steps
