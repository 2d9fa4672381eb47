"""Plot of learning curves over wall time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.measure import results
from benchmarks.work.thresholds import OURS, PEER
from tfagents_batch.errors import UserError
from tfagents_batch.training.analysis.figure import panels

_POINTS = 400
_STYLES = {OURS: ("ours", "tab:blue"), PEER: ("Stable-Baselines3", "tab:orange")}

Curve = Sequence[Sequence[float]]


def median(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Return the median over runs of their latest return, over time.

    A finished run keeps its last return, so that runs that reached the threshold still
    count.

    Args:
      curves: curves of (steps, seconds, mean return).

    Returns:
      Seconds and returns ``[_POINTS]``, from the time when every run has a return.
    """
    seconds = [np.array([point[1] for point in curve]) for curve in curves]
    values = [np.array([point[2] for point in curve]) for curve in curves]
    grid = np.linspace(max(x[0] for x in seconds), max(x[-1] for x in seconds), _POINTS)
    latest = [
        y[np.searchsorted(x, grid, side="right") - 1]
        for x, y in zip(seconds, values, strict=True)
    ]
    return grid, np.median(latest, axis=0)


def draw(lines: Sequence[dict[str, Any]], out: str) -> None:
    """Write a PNG: a panel for each task, thin lines for seeds, thick ones for medians.

    Args:
      lines: lines of ``learning.jsonl``; the newest run of every row is drawn.
      out: path of the PNG.

    Raises:
      UserError: if nothing was measured, or matplotlib is missing.
    """
    found = {
        name: curves
        for name, each in results.newest(lines).items()
        if (curves := [line for line in each if line.get("curve")])
    }
    if not found:
        raise UserError("there are no learning curves; run benchmarks.learning first")
    with panels(1, len(found), (5 * len(found), 3.5), out) as axes:
        for axis, each in zip(axes[0], found.values(), strict=True):
            _panel(axis, each)


def _panel(axis: Any, lines: Sequence[dict[str, Any]]) -> None:
    for contender, (label, color) in _STYLES.items():
        curves = [x["curve"] for x in lines if x["contender"] == contender]
        if not curves:
            continue
        for curve in curves:
            _, seconds, values = zip(*curve, strict=True)
            axis.plot(seconds, values, color=color, alpha=0.3, linewidth=1)
        runs = "1 run" if len(curves) == 1 else f"{len(curves)} runs"
        axis.plot(*median(curves), color=color, linewidth=2, label=f"{label} ({runs})")
    axis.axhline(
        lines[0]["config"]["threshold"], color="black", linestyle="--", linewidth=1
    )
    axis.set_title(f"{lines[0]['title']}, {lines[0]['cache']} cache", fontsize=10)
    axis.set_xlabel("seconds from process start, without evaluations")
    axis.set_ylabel("mean greedy return")
    axis.legend(fontsize=8)
    axis.grid(alpha=0.3)
