"""Pictures of the newest results: ``python -m benchmarks.plots``."""

from __future__ import annotations

import dataclasses
import pathlib
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.measure import command, results
from benchmarks.work import machine
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.training.analysis.figure import panels

_COLUMNS = 3
_WIDTH = 48  # characters of a title
_POINTS = 400  # of a median curve
_OURS, _THEIRS = "tab:blue", "tab:gray"

Curve = Sequence[Sequence[float]]


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    folder: str = option(str(results.FOLDER), "folder of the results files")
    out: str = option(str(machine.ROOT / "docs/images"), "folder of the pictures")


def main(flags: Command) -> int:
    """Draw the speeds of training and the times to a threshold; print the paths."""
    for file, name, draw in (
        ("training", "benchmarks", speeds),
        ("learning", "time_to_threshold", curves),
    ):
        path = pathlib.Path(flags.folder) / f"{file}.jsonl"
        newest = results.newest(results.read(path)).items()
        rows = {name: [x for x in row if "failed" not in x] for name, row in newest}
        rows = {name: row for name, row in rows.items() if row}
        if not rows:
            raise UserError(
                f"{path} has no results to draw; measure some with "
                "python -m benchmarks.compare"
            )
        out = pathlib.Path(flags.out) / f"{name}.png"
        out.parent.mkdir(parents=True, exist_ok=True)
        draw(rows, str(out))
        print(out)
    return 0


def speeds(rows: dict[str, list[dict[str, Any]]], out: str) -> None:
    """Draw a panel for each row, with a bar for each contender, ours first."""
    columns = min(_COLUMNS, len(rows))
    lines = -(-len(rows) // columns)
    most = max(len(row) + 1 for row in rows.values())
    with panels(lines, columns, (6 * columns, lines * (1 + 0.6 * most)), out) as axes:
        for axis in axes.flat[len(rows) :]:
            axis.set_visible(False)
        for axis, (name, row) in zip(axes.flat, rows.items(), strict=False):
            _bars(axis, f"{row[0]['title']} ({name})", row)


def curves(rows: dict[str, list[dict[str, Any]]], out: str) -> None:
    """Draw a panel for each row: thin lines for seeds, thick ones for their medians."""
    with panels(1, len(rows), (5 * len(rows), 3.5), out) as axes:
        for axis, row in zip(axes[0], rows.values(), strict=True):
            ours = [x["curve"] for x in row if x["contender"] == "learn_ours"]
            theirs = [x["curve"] for x in row if x["contender"] != "learn_ours"]
            _lines(axis, ours, "ours", _OURS)
            _lines(axis, theirs, "Stable-Baselines3", "tab:orange")
            threshold = row[0]["config"]["threshold"]
            axis.axhline(threshold, color="black", linestyle="--", linewidth=1)
            axis.set_title(f"{row[0]['title']}, {row[0]['cache']} cache", fontsize=10)
            axis.set_xlabel("seconds from process start, without evaluations")
            axis.set_ylabel("mean greedy return")
            axis.legend(fontsize=8)
            axis.grid(alpha=0.3)


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


def _lines(axis: Any, runs: Sequence[Curve], label: str, color: str) -> None:
    if not runs:
        return
    for curve in runs:
        _, seconds, values = zip(*curve, strict=True)
        axis.plot(seconds, values, color=color, alpha=0.3, linewidth=1)
    axis.plot(
        *median(runs), color=color, linewidth=2, label=f"{label}, {len(runs)} runs"
    )


def _bars(axis: Any, title: str, row: Sequence[dict[str, Any]]) -> None:
    from matplotlib import ticker

    bars = {}  # a row has as many lines with our value as it has rivals
    for line in row:
        ours = ", ".join(filter(None, ("tfagents_batch", line["subject_setting"])))
        bars[ours] = line["subject_value"], _OURS
    for line in row:
        parts = filter(None, (line["peer"], line["kind"], line["setting"]))
        bars[", ".join(parts)] = line["rival_value"], _THEIRS
    values, colors = zip(*bars.values(), strict=True)
    labels = [_folded(label, _WIDTH // 2) for label in bars]
    drawn = axis.barh(labels, values, color=colors)
    axis.bar_label(drawn, [f"{value:,.0f}" for value in values], padding=3)
    axis.invert_yaxis()
    axis.margins(x=0.25)
    axis.set_title(_folded(title, _WIDTH), fontsize=10)
    axis.tick_params(axis="y", labelsize=8)
    axis.set_xlabel("env steps a second")
    axis.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    axis.spines[["top", "right"]].set_visible(False)


def _folded(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_on_hyphens=False)


if __name__ == "__main__":
    command.run(Command, main)
