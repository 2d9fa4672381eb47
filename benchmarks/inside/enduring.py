"""A long training run in a new process, to find growth of time or memory."""

from __future__ import annotations

import dataclasses
import sys
import time
from typing import Any

from benchmarks.inside import hooked, memory, session
from benchmarks.work.stepping import versions


@dataclasses.dataclass(frozen=True)
class Enduring:
    """A preset trained for longer than it needs.

    Attributes:
      preset: name of the preset.
      steps: environment steps.
      every: environment steps between two points.
      seed: seed of the run.
    """

    preset: str = "cartpole"
    steps: int = 1_000_000
    every: int = 50_000
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
        env, algorithm = experiment.env, experiment.algorithm
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
            points.append(
                {
                    "steps": steps,
                    "seconds_per_step": (now - last[1]) / (steps - last[0]),
                    "traces": len(traces),
                    **memory.resident(),
                }
            )
            last = (steps, time.perf_counter())
        return False

    hooked.train(
        work.preset,
        built,
        iteration,
        steps=work.steps,
        seed=work.seed,
        eval_every=0,
    )
    found = versions("tensorflow", "keras", "gymnasium", "numpy")
    return {"points": points, "own": own, "versions": found}


if __name__ == "__main__":
    with session.result_line() as result:
        hooked.load()
        result.update(measure(Enduring(**session.work_flag(sys.argv[1:]))))
