"""Figure of a sweep: its history, and values against each searched flag."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfagents_batch.distribute.sweep.plan import Plan
from tfagents_batch.distribute.sweep.results import Row
from tfagents_batch.distribute.sweep.search import Range
from tfagents_batch.training.analysis import figure

FILE = "results.png"
_COLUMNS = 2
_MARKS = {
    "complete": {"color": "tab:blue", "alpha": 0.7, "s": 25},
    "pruned": {"color": "tab:gray", "alpha": 0.7, "s": 20, "marker": "x"},
}


def draw(path: Path, plan: Plan, rows: Sequence[Row]) -> None:
    """Draw the trials that completed or were pruned, and write a PNG file.

    Args:
      path: path of the file.
      plan: plan of the sweep.
      rows: results, see ``results.rows``.

    Raises:
      UserError: if matplotlib is missing.
    """
    done = sorted(
        (row for row in rows if row.state in _MARKS), key=lambda row: row.number
    )
    count = 1 + len(plan.search)
    columns = min(_COLUMNS, count)
    lines = -(-count // columns)
    size = 4.4 * columns, 3.5 * lines
    with figure.panels(lines, columns, size, str(path)) as axes:
        history, *others = axes.flat
        _draw_history(history, plan, done)
        for axis, (name, space) in itertools.zip_longest(
            others, plan.search.items(), fillvalue=(None, None)
        ):
            if name is None:
                axis.set_visible(False)
                continue
            _draw_setting(axis, name, space, done)
        for axis in axes.flat[::columns]:
            axis.set_ylabel(plan.metric)


def _draw_history(axis: Any, plan: Plan, done: Sequence[Row]) -> None:
    from matplotlib import ticker

    _mark(axis, done, [row.number for row in done])
    best = [row for row in done if row.state == "complete"]
    values = itertools.accumulate(
        (row.value for row in best), max if plan.goal == "max" else min
    )
    line = {"color": "tab:orange", "drawstyle": "steps-post", "label": "best"}
    axis.plot([row.number for row in best], [*values], **line)
    axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axis.set_xlabel("trial")
    axis.legend(fontsize=9)
    axis.grid(alpha=0.3)


def _draw_setting(axis: Any, name: str, space: Any, done: Sequence[Row]) -> None:
    settings = [row.values[name] for row in done]
    if isinstance(space, Range):
        _mark(axis, done, settings)
        if space.log:
            axis.set_xscale("log")
    else:
        _mark(axis, done, [space.values.index(x) for x in settings])
        axis.set_xticks(range(len(space.values)), space.values, fontsize=9)
    axis.set_xlabel(name)
    axis.grid(alpha=0.3)


def _mark(axis: Any, done: Sequence[Row], places: Sequence[float]) -> None:
    """Mark the value of each trial at a place on the x-axis."""
    for state, style in _MARKS.items():
        shown = [
            (x, row.value)
            for x, row in zip(places, done, strict=True)
            if row.state == state
        ]
        if shown:
            axis.scatter(*zip(*shown, strict=True), label=state, **style)
