"""What grows with a million steps: ``python -m benchmarks.endurance``."""

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
LEVEL = 0.02  # change over the whole run, relative, that still counts as level
_RESAMPLES = 2_000
FIGURES = {
    "learner_rss_mib": "resident memory of the learner, MiB",
    "workers_rss_mib": "resident memory of the workers, MiB",
    "seconds_per_step": "time a step, µs",
}
_SCALE = {"seconds_per_step": 1e6}

Line = dict[str, Any]


class Trend(NamedTuple):
    """Of a figure over a run.

    Attributes:
      first, last: values.
      slope: per million steps, by Theil and Sen: one odd point does not turn it.
      low, high: its 95 % bootstrap interval, points resampled.
      verdict: "level", "grows", "falls", or "unclear" where it might grow.
    """

    first: float
    last: float
    slope: float
    low: float
    high: float
    verdict: str


@dataclasses.dataclass(frozen=True)
class Command:
    """Of this benchmark."""

    preset: str = option("cartpole", "that is trained")
    steps: int = option(1_000_000, "of environments", least=1)
    every: int = option(50_000, "env steps between two looks", least=1)
    deadline_seconds: float = option(3600.0, "of the process", above=0)
    results: str = option(str(results.FOLDER / FILE), "file to add to")


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
    """Whether a figure changes with the steps.

    It is level where even the upper end of the slope's interval amounts, over the whole
    run, to less than ``LEVEL`` of the figure: so noise cannot hide growth. The first
    point is left out of the slope where there are others: caches fill.

    Args:
      points: of a run.
      name: of the figure.
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
    least = LEVEL * abs(float(np.median(values))) / run  # slope that is none
    if high < 0 and slope <= -least:
        verdict = "falls"
    elif high < least:
        verdict = "level"
    else:
        verdict = "grows" if low > 0 else "unclear"
    return Trend(first, last, slope, float(low), float(high), verdict)


def markdown(lines: Sequence[Line]) -> str:
    """Of every run the newest.

    Args:
      lines: of ``endurance.jsonl``.
    """
    rows = [
        "| run | | first | last | slope per million steps (95 %) | |",
        "|---|---|---|---|---|---|",
    ]
    origins = []
    for name, found in results.newest(lines).items():
        line = found[-1]
        for figure, title in FIGURES.items():
            seen = Trend(**line[figure])
            rows.append(
                f"| `{name}` | {title} | {seen.first:.1f} | {seen.last:.1f} "
                f"| {seen.slope:+.2f} ({seen.low:+.2f} to {seen.high:+.2f}) "
                f"| {seen.verdict} |"
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
    """Median of the slopes of all pairs; 0 where all x are one."""
    i, j = np.triu_indices(len(x), 1)
    i, j = i[x[i] != x[j]], j[x[i] != x[j]]
    return float(np.median((y[j] - y[i]) / (x[j] - x[i]))) if len(i) else 0.0


if __name__ == "__main__":
    sys.exit(command.run(main))
