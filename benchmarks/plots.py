"""Pictures of the newest results: ``python -m benchmarks.plots``."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import contenders
from benchmarks.measure import command, results
from benchmarks.work import machine
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.training.analysis import figure

_COLUMNS = 3
_INCHES = 9  # width of a picture; the text is readable where it is 900 pixels wide
_WIDTH = 44  # characters of a label
_GAP = 0.6  # between the bars of two rows, in bars
_TITLE = 32  # characters of the title of a panel
_POINTS = 400  # of a median curve
_OURS, _THEIRS = "tab:blue", "tab:orange"
# Colors of the libraries in the chart of speeds; other contenders are our own.
_PEERS = {
    contenders.SB3: _THEIRS,
    contenders.SBX: "tab:green",
    contenders.TF_AGENTS: "tab:red",
    contenders.JAX: "tab:purple",
    contenders.BATCH_PPO: "tab:brown",
    contenders.SAMPLE_FACTORY: "tab:cyan",
}

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
    """Draw a bar for each library in each row: how many times faster ours is."""
    works: dict[str, list[dict[str, Any]]] = {}  # two rows may have the same work
    for line in (line for row in rows.values() for line in row):
        if line["peer"] in _PEERS:
            title = re.sub(r" \(.*\)", "", line["title"])
            works.setdefault(title, []).append(line)
    height = 0.22 * sum(len(lines) + _GAP for lines in works.values()) + 1
    with figure.panels(1, 1, (_INCHES, height), out) as axes:
        axis, place, middles, drawn = axes[0, 0], 0.0, [], set()
        for lines in works.values():
            middles.append(place + (len(lines) - 1) / 2)
            for line in lines:
                _bar(axis, place, line, drawn)
                place += 1
            place += _GAP
        axis.set_yticks(middles, [_folded(title, _WIDTH) for title in works])
        axis.tick_params(axis="y", labelsize=9, length=0)
        axis.axvline(1, color="black", linestyle="--", linewidth=1, label="equal speed")
        axis.set_ylim(place, -1)
        axis.margins(x=0.06)
        axis.set_xlabel("env steps per second of training: ours / theirs")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=9, loc="lower right", title="times as fast as")


def curves(rows: dict[str, list[dict[str, Any]]], out: str) -> None:
    """Draw a panel for each row: thin lines for seeds, thick ones for their medians."""
    columns = min(_COLUMNS, len(rows))
    lines = -(-len(rows) // columns)
    with figure.panels(lines, columns, (_INCHES, 3.2 * lines), out) as axes:
        for axis in axes.flat[len(rows) :]:
            axis.set_visible(False)
        for axis, row in zip(axes.flat, rows.values(), strict=False):
            ours = [x["curve"] for x in row if x["contender"] == "learn_ours"]
            theirs = [x["curve"] for x in row if x["contender"] != "learn_ours"]
            _lines(axis, ours, "ours", _OURS)
            _lines(axis, theirs, contenders.SB3, _THEIRS)
            figure.mark(axis, row[0]["config"]["threshold"])
            title = f"{row[0]['title']}, {row[0]['cache']} cache"
            axis.set_title(_folded(title, _TITLE), fontsize=9)
            axis.set_xlabel("seconds, without evaluations", fontsize=9)
            axis.set_ylabel("return", fontsize=9)
            axis.tick_params(labelsize=8)
            axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.28))
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
        *median(runs),
        color=color,
        linewidth=2,
        label=f"{label}: median of {len(runs)} seeds",
    )


def _bar(axis: Any, place: float, line: dict[str, Any], drawn: set[str]) -> None:
    """Draw the ratio of a line with its interval; the legend has a library once."""
    peer, ratio = line["peer"], line["ratio"]
    median, low, high = (ratio[name] for name in ("median", "low", "high"))
    label = None if peer in drawn else peer
    drawn.add(peer)
    axis.barh(place, median, height=0.85, color=_PEERS[peer], alpha=0.8, label=label)
    axis.hlines(place, low, high, color="black", linewidth=1)
    text = {"textcoords": "offset points", "va": "center", "fontsize": 8}
    axis.annotate(f"{median:.1f}", (high, place), (4, 0), **text)


def _folded(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_on_hyphens=False)


if __name__ == "__main__":
    command.run(Command, main)
