"""Settings of a pool of workers on Ray: ``tfb.train(pool=tfb.RayPool(workers=4))``."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal, Self

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.distribute.resources import WORKER_BYTES
from tfagents_batch.errors import UserError


@dataclasses.dataclass(frozen=True)
class RayPool:
    """Settings of workers that are actors of Ray."""

    name: ClassVar[str] = "ray"
    episodes_only: ClassVar[bool] = False

    workers: int = option(
        2, "actors, each with an equal share of num_envs", least=1, most=10_000
    )
    address: str | None = option(
        None, "host:port of a cluster's head, or auto; none: start Ray on this machine"
    )
    cpus: float = option(1.0, "CPUs of an actor, as Ray counts them", least=0)
    memory: int = option(
        WORKER_BYTES, "memory of an actor in bytes, which Ray reserves", least=0
    )
    resources: dict = option(
        {}, "further resources of an actor, such as a kind of node"
    )
    scheduling: Literal["DEFAULT", "SPREAD"] = option(
        "SPREAD", "placement: fill machines (DEFAULT), or spread over them"
    )
    max_restarts: int = option(
        3, "how often an actor is replaced before the run fails", least=0
    )
    answer_seconds: float = option(
        8.0, "seconds after which an actor that does not answer is replaced", above=0
    )
    start_seconds: float = option(
        180.0, "seconds that an actor may take to start", above=0
    )

    def check(self, num_envs: int) -> Self:
        """Return the checked settings.

        Raises:
          UserError: for a setting that is invalid; names it.
        """
        checked = config.check(self, "pool.")
        if num_envs % checked.workers:
            raise UserError(
                f"the pool has {checked.workers} workers; expected a divisor of the "
                f"{num_envs} environments, because each has the same number; change "
                "--pool_workers or --num_envs"
            )
        return checked

    @property
    def parts(self) -> int:
        """Number of parts into which environments are divided."""
        return self.workers
