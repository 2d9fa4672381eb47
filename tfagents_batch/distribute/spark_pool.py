"""Settings of a pool on Apache Spark: ``tfb.train(pool=tfb.SparkPool(workers=4))``."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Self

from tfagents_batch import config
from tfagents_batch.config import option
from tfagents_batch.errors import UserError

_TASKS = 4  # at least, so that up to four workers give the same episodes


@dataclasses.dataclass(frozen=True)
class SparkPool:
    """Settings of workers that play whole episodes in the tasks of Spark's jobs."""

    name: ClassVar[str] = "spark"
    episodes_only: ClassVar[bool] = True

    workers: int = option(
        2, "partitions, so how many tasks run at the same time", least=1, most=10_000
    )
    master: str | None = option(
        None, "address of a cluster; none: the active session, or this machine"
    )
    tasks: int | None = option(
        None,
        "parts of the episodes, each with an equal share of num_envs; what is played "
        "depends on their number, but not on that of workers. none: a divisor of "
        "num_envs, at least 4 and the number of workers if there is one",
        least=1,
    )
    start_seconds: float = option(
        180.0, "seconds that the first job may take, which starts TensorFlow", above=0
    )
    job_seconds: float = option(
        600.0, "seconds after which a job of Spark fails", above=0
    )

    def check(self, num_envs: int) -> Self:
        """Return the checked settings, with the number of tasks.

        Raises:
          UserError: for a setting that is invalid; names it.
        """
        checked = config.check(self, "pool.")
        tasks = checked.tasks
        if tasks is None:
            least = max(_TASKS, checked.workers)
            divisors = [n for n in range(1, num_envs + 1) if not num_envs % n]
            tasks = next((n for n in divisors if n >= least), num_envs)
        elif num_envs % tasks:
            raise UserError(
                f"pool.tasks is {tasks}; expected a divisor of the {num_envs} "
                "environments, because each has the same number"
            )
        return dataclasses.replace(checked, tasks=tasks)

    @property
    def parts(self) -> int:
        """Number of parts into which environments and episodes are divided."""
        return self.tasks or self.workers
