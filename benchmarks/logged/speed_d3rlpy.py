"""Algorithms of d3rlpy on logged rows."""

from __future__ import annotations

import pathlib
import time

from benchmarks.inside import session
from benchmarks.logged import d3rlpy_agent
from benchmarks.work.logged import LEARNERS, Logged


def measure(work: Logged) -> dict[str, float]:
    """Return gradient steps per second with one thread, after a warm-up."""
    learner, count = LEARNERS[work.learner], work.count
    path = pathlib.Path(work.folder) / "rows.npz"
    _, fit = d3rlpy_agent.create(learner, path, learner.hidden)
    fit(count // 10)
    start = time.perf_counter()
    fit(count)
    return {"steps_per_s": count / (time.perf_counter() - start)}


if __name__ == "__main__":
    session.figures(lambda: None, measure, Logged)
