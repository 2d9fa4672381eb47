"""Several batches of environments, each stepped by a program of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfagents_batch.envs.graph.process_env import ProcessEnv
from tfagents_batch.types import EnvSpec


class Fleet:
    """Batches that asynchronous training steps, with one life cycle.

    It has no ``init`` and ``step``: those of its parts are used.

    Args:
      parts: batches of equal size, of the same environments.

    Attributes:
      parts: the batches.
      spec: spec of all environments together.
      num_workers: number of processes.
    """

    def __init__(self, parts: Sequence[ProcessEnv]):
        self.parts = tuple(parts)
        count = sum(part.spec.num_envs for part in self.parts)
        self.spec: EnvSpec = self.parts[0].spec._replace(num_envs=count)
        self.num_workers = sum(part.num_workers for part in self.parts)
        self.compilable = all(part.compilable for part in self.parts)

    def check(self) -> None:
        """Raise the failure of a part, see ``ProcessEnv.check``."""
        for part in self.parts:
            part.check()

    def stop(self) -> None:
        """Make every step return at once; from any thread."""
        for part in self.parts:
            part.stop()

    def close(self) -> None:
        """End all workers."""
        for part in self.parts:
            part.close()

    def events(self) -> list[dict[str, Any]]:
        """Return events of all parts, with numbers of environments in the fleet."""
        events, first = [], 0
        for part in self.parts:
            for event in part.events():
                if "envs" in event:
                    event = event | {"envs": [first + i for i in event["envs"]]}
                events.append(event)
            first += part.spec.num_envs
        return events

    def metrics(self) -> dict[str, float]:
        """Return counters since the last call: sums, means of times, largest sizes."""
        values_by_name: dict[str, list[float]] = {}
        for part in self.parts:
            for name, x in part.metrics().items():
                values_by_name.setdefault(name, []).append(x)
        return {name: _joined(name, values) for name, values in values_by_name.items()}


def _joined(name: str, values: list[float]) -> float:
    if name.startswith("system/"):
        return max(values)
    mean = name.startswith("time/") or name.endswith("_fraction")
    return sum(values) / len(values) if mean else sum(values)
