"""Results of a sweep: rows, a CSV file, a table and a figure."""

from __future__ import annotations

import collections
import csv
import io
import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfagents_batch.distribute import sweep_loop, sweep_storage
from tfagents_batch.distribute.sweep_search import SearchPlan
from tfagents_batch.training.log import curves
from tfagents_batch.training.run_folder import files

FILE, FIGURE = "results.csv", "results.png"
_ROWS = 20  # of the table; the file has all
_COLUMNS = 2  # of the figure
_OTHERS = "pruned", "failed"  # states of trials that did not complete
_MARKS = {
    "complete": {"color": "tab:blue", "alpha": 0.7, "s": 25},
    "pruned": {"color": "tab:gray", "alpha": 0.7, "s": 20, "marker": "x"},
}


class Row(NamedTuple):
    """Result of a trial."""

    number: int  # as in the name of its folder
    state: str  # complete, pruned or failed
    value: float | None  # None if it failed
    values: dict[str, Any]  # of the searched flags
    seconds: float
    folder: str
    error: str  # why it failed


def rows(study: Any, plan: SearchPlan) -> list[Row]:
    """Return the results of all trials: the best first, then pruned and failed ones."""
    results = [_row(trial) for trial in sweep_storage.counted(study)]
    order, sign = ("complete", *_OTHERS), -1 if plan.goal == "max" else 1
    return sorted(
        results, key=lambda row: (order.index(row.state), sign * (row.value or 0))
    )


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write the rows to a CSV file."""
    out = io.StringIO()
    names = [*dict.fromkeys(name for row in rows for name in row.values)]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["trial", "state", "value", *names, "seconds", "folder", "error"])
    for row in rows:
        values = [row.values.get(name, "") for name in names]
        cells = [row.number, row.state, row.value, *values]
        writer.writerow([*cells, round(row.seconds, 1), row.folder, row.error])
    files.write_atomic(path, out.getvalue())


def table(rows: Sequence[Row]) -> str:
    """Return a table of the best trials as text."""
    names = [*dict.fromkeys(name for row in rows for name in row.values)]
    lines = [["trial", "value", *names, "seconds", ""]]
    for row in rows[:_ROWS]:
        value = "" if row.value is None else f"{row.value:.6g}"
        values = [_short(row.values.get(name, "")) for name in names]
        note = "" if row.state == "complete" else row.state
        note += f": {row.error}" if row.error else ""
        lines.append([str(row.number), value, *values, f"{row.seconds:.0f}", note])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
    lines = [
        "  ".join([*(x.rjust(n) for x, n in zip(line, widths, strict=False)), line[-1]])
        for line in lines
    ]
    if len(rows) > _ROWS:
        lines.append(f"and {len(rows) - _ROWS} more")
    return "\n".join(map(str.rstrip, lines))


def line(number: int, rows: Sequence[Row], trials: int) -> str:
    """Return a line about a trial that has ended, from all results so far."""
    (row,) = (other for other in rows if other.number == number)
    what = row.state if row.state != "complete" else f"{row.value:.6g}"
    what += f" ({row.error})" if row.error else ""
    text = f"trial {number}: {what} in {row.seconds:.0f} s; {len(rows)} of {trials}"
    best = rows[0]
    if best.state == "complete":
        text += f", best {best.value:.6g} (trial {best.number})"
    return text


def summary(rows: Sequence[Row]) -> str:
    """Return how many trials completed, were pruned and failed."""
    n = collections.Counter(row.state for row in rows)
    others = [f"{n[x]} {x} ({n[x] / len(rows):.0%})" for x in _OTHERS if n[x]]
    return ", ".join([f"{n['complete']} of {len(rows)} trials completed", *others])


def command(plan: SearchPlan, row: Row) -> str:
    """Return the command that trains with the values of a trial again."""
    flags = shlex.join(plan.flags(row.values))
    return f"tfagents-batch train {flags}"


def draw(path: Path, plan: SearchPlan, results: Sequence[Row]) -> None:
    """Draw values by trial and against each searched flag, and write a PNG file."""
    done = sorted((x for x in results if x.state in _MARKS), key=lambda x: x.number)
    best = [row for row in done if row.state == "complete"]
    rows = -(-(1 + len(plan.space)) // _COLUMNS)
    size = 4.4 * _COLUMNS, 3.5 * rows
    with curves.panels(rows, _COLUMNS, size, str(path)) as axes:
        history, *others = axes.flat
        _mark(history, done, "trial", [row.number for row in done])
        values = itertools.accumulate(
            (row.value for row in best), max if plan.goal == "max" else min
        )
        line = {"color": "tab:orange", "drawstyle": "steps-post", "label": "best"}
        history.plot([row.number for row in best], [*values], **line)
        history.xaxis.get_major_locator().set_params(integer=True)
        history.legend(fontsize=9)
        for axis, (name, space) in zip(others, plan.space.items(), strict=False):
            xs = [row.values[name] for row in done]
            choices = getattr(space, "choices", ())
            _mark(axis, done, name, [choices.index(x) if choices else x for x in xs])
            if choices:
                axis.set_xticks(range(len(choices)), choices, fontsize=9)
            elif space.log:
                _logarithmic(axis)
        for axis in others[len(plan.space) :]:
            axis.set_visible(False)
        for axis in axes[:, 0]:
            axis.set_ylabel(plan.metric)


def _mark(axis: Any, done: Sequence[Row], label: str, places: Sequence[Any]) -> None:
    """Mark the value of each trial at its place on the x-axis."""
    for state, style in _MARKS.items():
        shown = [
            (x, row.value)
            for x, row in zip(places, done, strict=True)
            if row.state == state
        ]
        if shown:
            axis.scatter(*zip(*shown, strict=True), label=state, **style)
    axis.set_xlabel(label)
    axis.grid(alpha=0.3)


def _logarithmic(axis: Any) -> None:
    """Make the x-axis logarithmic, with labels that do not lie over each other."""
    from matplotlib import ticker

    axis.set_xscale("log")
    low, high = axis.get_xlim()
    ratio = high / low
    # Powers of ten; where there are few of them, also 2 and 5 times these.
    locator = ticker.LogLocator(subs=(1,) if ratio >= 100 else (1, 2, 5))
    if ratio < 5:  # which would leave one label, or none
        locator = ticker.MaxNLocator(4)
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())


def _row(trial: Any) -> Row:
    from optuna.trial import TrialState

    states = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned"}
    state, attrs = states.get(trial.state, "failed"), trial.user_attrs
    value = None if state == "failed" else trial.value
    seconds = trial.duration.total_seconds()
    error = attrs.get(sweep_loop.ERROR, "")
    where = attrs.get(sweep_loop.FOLDER, "")
    return Row(trial.number, state, value, dict(trial.params), seconds, where, error)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
