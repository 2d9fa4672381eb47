"""Growth of time and memory in a long run: ``python -m benchmarks.endurance``."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.inside.enduring import Enduring
from benchmarks.measure import command, process, results
from tfagents_batch.config import option
from tfagents_batch.scripts import app

FILE = "endurance.jsonl"
LEVEL = 0.02  # largest relative change over a run that counts as level
_RESAMPLES = 2_000
FIGURES = {
    "learner_rss_mib": "resident memory of the learner, MiB",
    "workers_rss_mib": "resident memory of the workers, MiB",
    "seconds_per_step": "time a step, µs",
}
_SCALE = {"seconds_per_step": 1e6}

Line = dict[str, Any]


class Trend(NamedTuple):
    """Trend of a figure over a run.

    Attributes:
      first, last: first and last value.
      slope: Theil-Sen slope per million steps, which outliers hardly change.
      low, high: 95 % bootstrap interval of the slope, over resampled points.
      verdict: "level", "grows", "falls", or "unclear" if it might grow.
    """

    first: float
    last: float
    slope: float
    low: float
    high: float
    verdict: str


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this benchmark."""

    preset: str = option("cartpole", "preset to train")
    steps: int = option(1_000_000, "environment steps", least=1)
    every: int = option(50_000, "environment steps between two points", least=1)
    deadline_seconds: float = option(3600.0, "time limit of the process", above=0)
    results: str = option(str(results.FOLDER / FILE), "file to append to")


def main(argv: Sequence[str]) -> int:
    """Measure, record, and print a table."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    run, path = results.context(), pathlib.Path(flags.results)
    work = dataclasses.asdict(Enduring(flags.preset, flags.steps, flags.every))
    result = process.run(
        "enduring", work, flags.deadline_seconds, package="benchmarks.inside"
    )
    if isinstance(result, process.Failure):
        command.report(f"failed: {result}")
        return 1
    row = f"{flags.preset}-{flags.steps}"
    trends = {name: trend(result["points"], name)._asdict() for name in FIGURES}
    results.append(path, run, [{"row": row, "config": work, **result, **trends}])
    print(markdown(results.read(path)))
    return 0


def trend(points: Sequence[Line], name: str) -> Trend:
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


def markdown(lines: Sequence[Line]) -> str:
    """Return a table with the newest result of every row.

    Args:
      lines: lines of ``endurance.jsonl``.
    """
    rows = [
        "| run | | first | last | slope per million steps (95 %) | |",
        "|---|---|---|---|---|---|",
    ]
    origins = []
    for name, newest in results.newest(lines).items():
        line = newest[-1]
        for figure, title in FIGURES.items():
            found = Trend(**line[figure])
            rows.append(
                f"| `{name}` | {title} | {found.first:.1f} | {found.last:.1f} "
                f"| {found.slope:+.2f} ({found.low:+.2f} to {found.high:+.2f}) "
                f"| {found.verdict} |"
            )
        traces = [point["traces"] for point in line["points"]]
        verdict = "level" if traces[0] == traces[-1] else "grows"
        rows.append(
            f"| `{name}` | traces of the update | {traces[0]} | {traces[-1]} | "
            f"| {verdict} |"
        )
        what = (
            f"`{name}`: a look every {line['config']['every']:,} steps, "
            f"{line['own']['workers']} workers"
        )
        origins.append(results.origin(line, what))
    return "\n".join([*rows, "", *origins])


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    """Return the median slope of all pairs of points; 0 if all x are equal."""
    i, j = np.triu_indices(len(x), 1)
    i, j = i[x[i] != x[j]], j[x[i] != x[j]]
    return float(np.median((y[j] - y[i]) / (x[j] - x[i]))) if len(i) else 0.0


if __name__ == "__main__":
    sys.exit(command.run(main))
