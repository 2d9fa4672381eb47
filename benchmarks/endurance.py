"""Growth of time and memory in a long run: ``python -m benchmarks.endurance``."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.inside.enduring import Enduring
from benchmarks.measure import command, figures, process, results, tables
from tfagents_batch.config import option

LEVEL = 0.02  # largest relative change over a run that counts as level
_RESAMPLES = 2_000
_SCALE = {"seconds_per_step": 1e6}  # to µs


class Trend(NamedTuple):
    """Trend of a figure over a run."""

    first: float
    last: float
    slope: float  # Theil-Sen, per million steps; outliers hardly change it
    low: float  # 95 % bootstrap interval of the slope, over resampled points
    high: float
    verdict: str  # "level", "grows", "falls", or "unclear" if it might grow


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    preset: str = option("cartpole", "preset to train")
    steps: int = option(1_000_000, "environment steps", least=1)
    every: int = option(50_000, "environment steps between two points", least=1)
    deadline_seconds: float = option(3600.0, "time limit of the process", above=0)
    results: str = option(str(results.FOLDER / "endurance.jsonl"), "file to append to")


def main(flags: Command) -> int:
    """Measure, record, and print a table."""
    run, path = results.context(), pathlib.Path(flags.results)
    work = Enduring(flags.preset, flags.steps, flags.every)
    result = figures.inside("enduring", work, flags.deadline_seconds)
    if isinstance(result, process.Failure):
        process.report(f"failed: {result}")
        return 1
    line = {"row": f"{flags.preset}-{flags.steps}", "config": dataclasses.asdict(work)}
    trends = {x: trend(result["points"], x)._asdict() for x in tables.ENDURANCE}
    results.append(path, run, [{**line, **result, **trends}])
    print(tables.endurance(results.read(path)))
    return 0


def trend(points: Sequence[dict[str, Any]], name: str) -> Trend:
    """Return the trend of a figure with the steps.

    It is level if even the upper end of the slope's interval changes the figure by less
    than ``LEVEL`` over the whole run, so noise cannot hide growth. If there are enough
    points, the slope leaves out the first, because caches still fill.

    Args:
      points: points of a run.
      name: name of the figure.
    """
    steps = np.array([point["steps"] for point in points], np.float64) / 1e6
    values = np.array([point[name] for point in points], np.float64)
    values *= _SCALE.get(name, 1)
    first, last, run = float(values[0]), float(values[-1]), steps[-1]
    if len(points) > 2:
        steps, values = steps[1:], values[1:]
    slope = _slope(steps, values)
    random = np.random.default_rng(0)
    drawn = random.integers(len(steps), size=(_RESAMPLES, len(steps)))
    low, high = np.percentile([_slope(steps[i], values[i]) for i in drawn], [2.5, 97.5])
    least = LEVEL * abs(float(np.median(values))) / run  # slopes below it are level
    if high < 0 and slope <= -least:
        verdict = "falls"
    elif high < least:
        verdict = "level"
    else:
        verdict = "grows" if low > 0 else "unclear"
    return Trend(first, last, slope, float(low), float(high), verdict)


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    """Return the median slope of all pairs of points; 0 if all x are equal."""
    i, j = np.triu_indices(len(x), 1)
    i, j = i[x[i] != x[j]], j[x[i] != x[j]]
    return float(np.median((y[j] - y[i]) / (x[j] - x[i]))) if len(i) else 0.0


if __name__ == "__main__":
    command.run(Command, main)
