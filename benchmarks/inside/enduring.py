"""A long training run in a new process, to find growth of time or memory."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from benchmarks.inside import hooked, memory, session
from benchmarks.work.works import versions


@dataclasses.dataclass(frozen=True)
class Enduring:
    """A preset trained for longer than it needs."""

    preset: str = "cartpole"
    steps: int = 1_000_000  # env steps
    every: int = 50_000  # env steps between two points
    seed: int = 1


def measure(work: Enduring) -> dict[str, Any]:
    """Measure a point every ``every`` steps.

    Returns:
      ``points`` with ``steps``, ``seconds_per_step`` since the previous point (without
      the first iteration, which compiles), ``traces`` of the update so far, and memory
      in MiB; ``own`` and ``versions``.
    """
    points: list[dict[str, Any]] = []
    traces, own = [], {}
    last: tuple[int, float] | None = None

    def built(experiment) -> None:
        env, algorithm = experiment.envs[0], experiment.algorithm
        own.update(workers=env.num_workers, route=env.backend)
        update = algorithm.update

        def traced(*args):  # TensorFlow calls it only when it traces
            traces.append(args)
            return update(*args)

        algorithm.update = traced

    def iteration(experiment, steps: int) -> bool:
        nonlocal last
        now = time.perf_counter()
        if last is None:
            last = (steps, now)
        elif steps // work.every > last[0] // work.every or steps >= work.steps:
            point = {
                "steps": steps,
                "seconds_per_step": (now - last[1]) / (steps - last[0]),
                "traces": len(traces),
            }
            points.append(point | memory.resident())
            last = (steps, time.perf_counter())
        return False

    options = {"steps": work.steps, "seed": work.seed, "eval_every": 0}
    hooked.train(work.preset, built, iteration, **options)
    found = versions("tensorflow", "keras", "gymnasium", "numpy")
    return {"points": points, "own": own, "versions": found}


if __name__ == "__main__":
    session.figures(hooked.load, measure, Enduring)
