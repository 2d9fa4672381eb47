"""Results of a sweep: rows, a CSV file and a table."""

from __future__ import annotations

import csv
import io
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import rich.console
import rich.table

from tfagents_batch.distribute.sweep import loop, storage
from tfagents_batch.distribute.sweep.plan import Plan
from tfagents_batch.training.run_folder import files

FILE = "results.csv"
_ROWS = 20  # of the table; the file has all
_WIDE = 10_000  # columns, so that nothing is cut off in a file


class Row(NamedTuple):
    """Result of a trial.

    Attributes:
      number: number of the trial, as in the name of its folder.
      state: "complete", "pruned" or "failed".
      value: its value; None if it failed.
      values: values of the searched flags.
      seconds: duration.
      folder: name of its folder.
      error: why it failed.
    """

    number: int
    state: str
    value: float | None
    values: dict[str, Any]
    seconds: float
    folder: str
    error: str


def rows(study: Any, plan: Plan) -> list[Row]:
    """Return the results of all trials: the best first, then pruned and failed ones."""
    found = [_row(trial) for trial in storage.counted(study)]
    order = "complete", "pruned", "failed"
    sign = -1 if plan.goal == "max" else 1
    return sorted(
        found, key=lambda row: (order.index(row.state), sign * (row.value or 0))
    )


def write(path: Path, found: Sequence[Row]) -> None:
    """Write the rows to a CSV file.

    Raises:
      SaveError: if it cannot be written.
    """
    out = io.StringIO()
    names = [*dict.fromkeys(name for row in found for name in row.values)]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["trial", "state", "value", *names, "seconds", "folder", "error"])
    for row in found:
        values = [row.values.get(name, "") for name in names]
        cells = [row.number, row.state, row.value, *values]
        writer.writerow([*cells, round(row.seconds, 1), row.folder, row.error])
    files.write_atomic(path, out.getvalue())


def table(found: Sequence[Row]) -> str:
    """Return a table of the best trials as text."""
    names = [*dict.fromkeys(name for row in found for name in row.values)]
    shown = rich.table.Table(box=None, pad_edge=False)
    for name in ("trial", "value", *names, "seconds", ""):
        shown.add_column(rich.text.Text(name), justify="right" if name else "left")
    for row in found[:_ROWS]:
        value = "" if row.value is None else f"{row.value:.6g}"
        values = [_short(row.values.get(name, "")) for name in names]
        note = "" if row.state == "complete" else row.state
        note += f": {row.error}" if row.error else ""
        cells = [str(row.number), value, *values, f"{row.seconds:.0f}", note]
        shown.add_row(*map(rich.text.Text, cells))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    console = rich.console.Console(file=io.StringIO(), width=width)
    console.print(shown)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    if len(found) > _ROWS:
        lines.append(f"and {len(found) - _ROWS} more")
    return "\n".join(lines)


def line(number: int, found: Sequence[Row], trials: int) -> str:
    """Return a line about a trial that has ended.

    Args:
      number: number of the trial.
      found: all results so far, see ``rows``.
      trials: number of trials in the end.
    """
    (row,) = (each for each in found if each.number == number)
    what = row.state if row.state != "complete" else f"{row.value:.6g}"
    what += f" ({row.error})" if row.error else ""
    text = f"trial {number}: {what} in {row.seconds:.0f} s; {len(found)} of {trials}"
    best = found[0]
    if best.state == "complete":
        text += f", best {best.value:.6g} (trial {best.number})"
    return text


def summary(found: Sequence[Row]) -> str:
    """Return how many trials completed, were pruned and failed."""
    counts = [(x, sum(row.state == x for row in found)) for x in ("pruned", "failed")]
    complete = len(found) - sum(count for _, count in counts)
    parts = [f"{complete} of {len(found)} trials completed"]
    parts += [f"{n} {x} ({n / len(found):.0%})" for x, n in counts if n]
    return ", ".join(parts)


def command(plan: Plan, row: Row) -> str:
    """Return the command that trains with the values of a trial again."""
    flags = shlex.join(plan.flags(row.values))
    return f"tfagents-batch train {flags}"


def _row(trial: Any) -> Row:
    from optuna.trial import TrialState

    states = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned"}
    state, attrs = states.get(trial.state, "failed"), trial.user_attrs
    value = None if state == "failed" else trial.value
    seconds = trial.duration.total_seconds()
    error = attrs.get(loop.ERROR, "")
    where = attrs.get(loop.FOLDER, "")
    return Row(trial.number, state, value, dict(trial.params), seconds, where, error)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
