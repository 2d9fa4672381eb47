"""Growth of the cost of training, with more environments or steps; in a new process."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from typing import Any

from benchmarks.inside import memory, session
from benchmarks.work.works import versions

_FOREVER = 10**12  # env steps


@dataclasses.dataclass(frozen=True)
class Growing:
    """A complete run, with logs and checkpoints, but without evaluations."""

    options: dict[str, Any]  # of ``tfagents_batch.train``
    seconds: float | None = None  # to train after the first iteration; None: all steps
    every_seconds: float = 0.25  # between two points of the curve


def load() -> None:
    """Import everything that the train command imports, in the same way."""
    from tfagents_batch.scripts import app

    app.import_tensorflow()
    import tfagents_batch.api  # noqa: F401


def measure(work: Growing) -> dict[str, Any]:
    """Measure speed and memory after the first iteration, which compiles.

    Returns:
      ``env_steps_per_second``; ``learner_rss_mib`` and ``workers_rss_mib`` at the end;
      ``memory_ratio`` and ``step_seconds_ratio``, of the last quarter of the run to its
      second quarter.
    """
    from tfagents_batch import api

    points: list[dict[str, Any]] = []  # steps and seconds since the point before
    last: tuple[int, float] | None = None

    def iterated(iteration: Any) -> bool:
        nonlocal last
        now = time.perf_counter()
        if last is None:
            last = iteration.step, now
        elif (seconds := now - last[1]) >= work.every_seconds:
            steps = iteration.step - last[0]
            points.append({"steps": steps, "seconds": seconds, **memory.resident()})
            last = iteration.step, time.perf_counter()
        measured = sum(point["seconds"] for point in points)
        return work.seconds is None or measured < work.seconds

    options = {"steps": _FOREVER, "compile_cache": False, **work.options}
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        api.train(logdir=folder, eval_every=0, on_iteration=iterated, **options)
    quarter = max(1, len(points) // 4)
    second, end = points[quarter : 2 * quarter] or points, points[-quarter:]
    return {
        "env_steps_per_second": 1 / _step_seconds(points),
        "learner_rss_mib": points[-1]["learner_rss_mib"],
        "workers_rss_mib": points[-1]["workers_rss_mib"],
        "memory_ratio": _memory(end) / _memory(second),
        "step_seconds_ratio": _step_seconds(end) / _step_seconds(second),
        "versions": versions("tensorflow", "keras", "gymnasium", "numpy"),
    }


def _memory(points: list[dict[str, Any]]) -> float:
    return statistics.fmean(point["learner_rss_mib"] for point in points)


def _step_seconds(points: list[dict[str, Any]]) -> float:
    seconds, steps = (sum(x[key] for x in points) for key in ("seconds", "steps"))
    return seconds / steps


if __name__ == "__main__":
    session.figures(load, measure, Growing)
