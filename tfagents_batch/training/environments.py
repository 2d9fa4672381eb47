"""The environments of a run, which may be several batches, as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfagents_batch.interfaces import Env


def events(envs: Sequence[Env]) -> list[dict[str, Any]]:
    """Return events since the last call, see ``ManagedEnv``.

    Environments are numbered through all batches.
    """
    found, first = [], 0
    for env in envs:
        for event in getattr(env, "events", list)():
            if "envs" in event:
                event = event | {"envs": [first + i for i in event["envs"]]}
            found.append(event)
        first += env.spec.num_envs
    return found


def counters(envs: Sequence[Env]) -> dict[str, float]:
    """Return counters since the last call, see ``joined``."""
    return joined(getattr(env, "metrics", dict)() for env in envs)


def joined(counters: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return counters of several batches: sums, means of times, largest sizes."""
    found: dict[str, list[float]] = {}
    for each in counters:
        for name, x in each.items():
            found.setdefault(name, []).append(x)
    return {name: _joined(name, values) for name, values in found.items()}


def num_workers(envs: Sequence[Env]) -> int | None:
    """Return the number of worker processes; None if there are no such environments."""
    counts = [getattr(env, "num_workers", None) for env in envs]
    return None if None in counts or not counts else sum(counts)


def _joined(name: str, values: list[float]) -> float:
    if name.startswith("system/"):
        return max(values)
    mean = name.startswith("time/") or name.endswith("_fraction")
    return sum(values) / len(values) if mean else sum(values)
