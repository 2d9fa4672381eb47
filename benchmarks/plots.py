"""Bar chart of the newest training results: ``python -m benchmarks.plots``."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import throughput
from benchmarks.measure import command, results
from benchmarks.work import machine
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app
from tfagents_batch.training.analysis.figure import panels

_COLUMNS = 3
_WIDTH = 48  # characters of a title
_OURS, _THEIRS = "tab:blue", "tab:gray"


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    results: str = option(str(results.FOLDER / throughput.FILE), "file to read")
    out: str = option(str(machine.ROOT / "docs/images/benchmarks.png"), "PNG to write")


def main(argv: Sequence[str]) -> int:
    """Write the picture and print its path."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    found = bars(results.read(pathlib.Path(flags.results)))
    if not found:
        raise UserError(
            f"{flags.results} has no results to draw; measure some with "
            "python -m benchmarks.throughput"
        )
    draw(found, flags.out)
    print(flags.out)
    return 0


def bars(lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, tuple[float, bool]]]:
    """Return ``{title: {label: (env steps/s, whether it is ours)}}`` of newest runs.

    Args:
      lines: lines of training results.
    """
    found: dict[str, dict[str, tuple[float, bool]]] = {}
    for name, row in results.newest(lines).items():
        ran = [line for line in row if "failed" not in line]
        ours = {
            f"tfagents_batch, {line['subject_setting']}": (line["subject_value"], True)
            for line in ran
        }
        theirs = {_label(line): (line["rival_value"], False) for line in ran}
        if ran:
            found[f"{ran[0]['title']} ({name})"] = ours | theirs
    return found


def draw(found: Mapping[str, Mapping[str, tuple[float, bool]]], out: str) -> None:
    """Write the picture, with a panel for each row and a bar for each contender.

    Args:
      found: see ``bars``; at least one row.
      out: path of the PNG.
    """
    columns = min(_COLUMNS, len(found))
    lines = -(-len(found) // columns)
    most = max(len(panel) for panel in found.values())
    size = (6 * columns, lines * (1 + 0.6 * most))
    pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
    with panels(lines, columns, size, out) as axes:
        from matplotlib import ticker

        for axis in axes.flat[len(found) :]:
            axis.set_visible(False)
        for axis, (title, panel) in zip(axes.flat, found.items(), strict=False):
            values, ours = zip(*panel.values(), strict=True)
            colors = [_OURS if each else _THEIRS for each in ours]
            labels = [_folded(label, _WIDTH // 2) for label in panel]
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


def _label(line: dict[str, Any]) -> str:
    parts = line["peer"], line["kind"], line["setting"]
    return ", ".join(part for part in parts if part)


if __name__ == "__main__":
    sys.exit(command.run(main))
