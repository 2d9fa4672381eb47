"""Options of a batch of environments, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfagents_batch.envs.shared import arguments

RAISE, RESTART = "raise", "restart"  # on_fault
REPLACE, TRUNCATE, OFF = "replace", "truncate", "off"
FINITE_CHECKS = (RAISE, REPLACE, TRUNCATE, OFF)
NATIVE, PORTABLE, AUTO = "native", "portable", "auto"  # backend
MAX_RESTARTS = 10  # per environment
RESTART_PERIOD_SECONDS = 60.0  # minimum between two restarts of an environment


@dataclasses.dataclass(frozen=True)
class EnvOptions:
    """Options of ``graph.process_env.ProcessEnv``; a wrong value is a UserError."""

    # Deadlines of a worker's reply; None waits forever. In this process there are none.
    construct_seconds: float | None = 120.0
    reset_seconds: float | None = 300.0
    step_seconds: float | None = 60.0
    # "raise" fails the whole batch after a failure; "restart" fails only the affected
    # rows and replaces their environments.
    on_fault: str = RAISE
    max_restarts: int = MAX_RESTARTS  # of one environment; its next failure is raised
    # A failure less than this time after a restart of the same environment is raised.
    restart_period_seconds: float = RESTART_PERIOD_SECONDS
    # For ``send`` and ``receive``; divides the numbers of environments and of workers.
    groups: int = 1
    # Reaction to NaN and infinity in observations and rewards: "raise" makes them a
    # failure; "replace" takes the numbers of the previous observation, or 0; "truncate"
    # ends the episode without that step; "off" accepts them.
    finite_check: str = RAISE
    # Whether observations outside the bounds of a Box are failures; otherwise they are
    # counted in spot checks and logged once.
    strict_bounds: bool = False
    # Limit of resident memory in megabytes (2**20 bytes). A worker above it ends after
    # an episode; "restart" replaces it without using a restart.
    max_worker_mb: float | None = None
    # ``{key: dtype}`` of numbers to copy from the environments' infos; float32, int32
    # or bool. A missing number is NaN, 0 or false.
    info_keys: Mapping[str, str] | None = None
    worker_variables: Mapping[str, str] | None = None  # environment variables
    # Whether each worker, with its child processes, is pinned to one core; None pins if
    # there are as many workers as cores.
    pin_workers: bool | None = None
    backend: str = AUTO  # "auto", "native" or "portable", see ``backends.choose``

    def __post_init__(self):
        arguments.info_columns(self.info_keys)
        arguments.one_of("on_fault", self.on_fault, (RAISE, RESTART))
        arguments.one_of("finite_check", self.finite_check, FINITE_CHECKS)
        for name in ("max_restarts", "restart_period_seconds"):
            arguments.at_least(name, getattr(self, name), 0)
        for name in ("construct_seconds", "reset_seconds", "step_seconds"):
            arguments.at_least(name, getattr(self, name), 0, or_none=True)
        arguments.at_least("max_worker_mb", self.max_worker_mb, 1, or_none=True)
        arguments.variables(self.worker_variables)

    def for_workers(self) -> dict[str, Any]:
        """Return the options that workers receive when they attach to the memory."""
        limit = self.max_worker_mb
        return {
            "finite_check": self.finite_check,
            "strict": bool(self.strict_bounds),
            "max_bytes": None if limit is None else int(limit * 2**20),
        }


# Options that are settings of a run; ``env_options`` of a run may have the others.
_SET_BY_RUNS = ("on_fault", "groups", "info_keys")
ENV_OPTIONS = tuple(
    field.name
    for field in dataclasses.fields(EnvOptions)
    if field.name not in _SET_BY_RUNS
)
