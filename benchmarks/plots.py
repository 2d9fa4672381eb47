"""Bar chart of the newest training results: ``python -m benchmarks.plots``."""

from __future__ import annotations

import dataclasses
import pathlib
import textwrap
from collections.abc import Sequence
from typing import Any

from benchmarks.measure import command, results
from benchmarks.work import machine
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.training.analysis.figure import panels

_COLUMNS = 3
_WIDTH = 48  # characters of a title
_OURS, _THEIRS = "tab:blue", "tab:gray"

Bars = dict[str, tuple[float, str]]  # {label: (env steps/s, color)}


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    results: str = option(str(results.FOLDER / "training.jsonl"), "file to read")
    out: str = option(str(machine.ROOT / "docs/images/benchmarks.png"), "PNG to write")


def main(flags: Command) -> int:
    """Write the picture, with a panel for each row, and print its path."""
    found = results.newest(results.read(pathlib.Path(flags.results))).items()
    ran = {name: [x for x in row if "failed" not in x] for name, row in found}
    shown = [(name, row) for name, row in ran.items() if row]
    if not shown:
        raise UserError(
            f"{flags.results} has no results to draw; measure some with "
            "python -m benchmarks.throughput"
        )
    columns = min(_COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    most = max(len(bars(row)) for _, row in shown)
    size = (6 * columns, lines * (1 + 0.6 * most))
    pathlib.Path(flags.out).parent.mkdir(parents=True, exist_ok=True)
    with panels(lines, columns, size, flags.out) as axes:
        for axis in axes.flat[len(shown) :]:
            axis.set_visible(False)
        for axis, (name, row) in zip(axes.flat, shown, strict=False):
            _panel(axis, f"{row[0]['title']} ({name})", bars(row))
    print(flags.out)
    return 0


def bars(row: Sequence[dict[str, Any]]) -> Bars:
    """Return a bar for each contender of a row, ours first."""
    ours, theirs = {}, {}
    for line in row:
        parts = line["peer"], line["kind"], line["setting"]
        label = f"tfagents_batch, {line['subject_setting']}"
        ours[label] = (line["subject_value"], _OURS)
        theirs[", ".join(filter(None, parts))] = (line["rival_value"], _THEIRS)
    return ours | theirs


def _panel(axis: Any, title: str, found: Bars) -> None:
    from matplotlib import ticker

    values, colors = zip(*found.values(), strict=True)
    labels = [_folded(label, _WIDTH // 2) for label in found]
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
