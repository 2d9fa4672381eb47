"""Work of a pool of workers."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Pooled:
    """What is measured, and the sizes of rollouts."""

    what: str  # "rollouts", "calls" or "jobs"
    workers: int = 2
    envs: int = 4  # of a worker, which steps them one after the other
    length: int = 32  # steps of a rollout
    milliseconds: float = 5.0  # that a step waits
    seconds: float = 10.0

    @property
    def fastest(self) -> float:
        """Steps per second if only the environments took time."""
        return self.workers * 1000 / self.milliseconds
