"""Plot learning curves: ``python -m tfagents_batch plot --logdir=logs``.

Runs that differ only in their seed become one line: their mean with a 95 % bootstrap
interval, and each run as a thin line. ``--compare`` puts different runs into one panel.
"""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from tfagents_batch.scripts import app

TRAIN, EVAL = "episode/return_mean", "eval/return_mean"
_COLUMNS = 3
_LEGEND = 60  # characters of a line of a legend
_COLORS = ("blue", "orange", "green", "red", "purple", "brown", "pink", "olive", "cyan")


class Panel(NamedTuple):
    """Panel of a figure.

    Attributes:
      title, metric: texts above the panel and at its y-axis.
      lines: pairs of a legend label and the ``curves`` of its runs.
    """

    title: str
    metric: str
    lines: list[tuple[str, list[Any]]]


def main(argv: Sequence[str]) -> int:
    """Parse flags, write a PNG file and print its path."""
    from tfagents_batch.config import option
    from tfagents_batch.errors import UserError
    from tfagents_batch.training.analysis import curves

    @dataclasses.dataclass(frozen=True)
    class Command:
        """Flags of this script."""

        logdir: tuple[str, ...] = option(
            ("logs",), "run folders, or folders that contain runs"
        )
        out: str = option("learning_curves.png", "PNG file to write")
        metric: tuple[str, ...] = option(
            (), f"metrics to plot; empty: {TRAIN} and, if logged, {EVAL}"
        )
        compare: bool = option(False, "plot all runs on an environment in one panel")
        threshold: tuple[float, ...] = option(
            (),
            "returns to mark with a dashed line: one for all panels, or one per panel",
        )
        debug: bool = option(False, "print tracebacks")

    command = app.parse(argv, Command)
    if command is None:
        return 0
    found = panels(curves.group(command.logdir), command.metric, command.compare)
    thresholds = command.threshold
    if len(thresholds) == 1:
        thresholds *= len(found)
    if thresholds and len(thresholds) != len(found):
        titles = "; ".join(panel.title for panel in found)
        raise UserError(
            f"there are {len(thresholds)} thresholds for {len(found)} panels "
            f"({titles}); pass one for all, or one for each panel"
        )
    draw(found, thresholds, command.out)
    print(command.out)
    return 0


def panels(groups: Sequence[Any], metrics: Sequence[str], compare: bool) -> list[Panel]:
    """Return the panels to draw; report runs without the metric on stderr.

    Args:
      groups: result of ``curves.group``.
      metrics: names; empty means returns of training and, if logged, of evaluations.
      compare: True for one panel per environment and metric with a line per group;
        False for one panel per group with a line per metric.

    Raises:
      UserError: if no run has a requested metric.
    """
    from tfagents_batch.errors import UserError
    from tfagents_batch.training.analysis import curves

    problem: UserError | None = None
    found: dict[tuple[str, str], Panel] = {}
    for group in groups:
        for metric in metrics or (TRAIN, EVAL):
            read = []
            for folder in group.folders:
                try:
                    read.append(curves.read(folder, metric))
                except UserError as error:
                    if metrics or metric == TRAIN:  # evaluations are optional
                        text = f"{folder} is left out: it has no {metric}"
                        print(text, file=sys.stderr)
                    problem = problem or error
            if not read:
                continue
            runs = "1 run" if len(read) == 1 else f"{len(read)} runs"
            label = f"{group.name if compare else metric} ({runs})"
            line = textwrap.fill(label, _LEGEND), read
            title, part = f"{group.name} on {group.env}", ""
            if compare:
                title, part = group.env, metric
            panel = found.setdefault((title, part), Panel(title, metric, []))
            panel.lines.append(line)
            if panel.metric != metric:
                found[title, part] = panel._replace(metric="")
    if not found:
        raise problem
    return list(found.values())


def draw(found: Sequence[Panel], thresholds: Sequence[float], out: str) -> None:
    """Draw the panels and write them to a PNG file.

    Args:
      found: panels, at least one.
      thresholds: one for each panel, or empty.
      out: path of the PNG file.

    Raises:
      UserError: if matplotlib is missing.
    """
    from tfagents_batch.training.analysis import figure

    columns = 2 if len(found) == 4 else min(_COLUMNS, len(found))
    rows = -(-len(found) // columns)
    with figure.panels(rows, columns, (5 * columns, 4 * rows), out) as axes:
        for axis in axes.flat[len(found) :]:
            axis.set_visible(False)
        for index, (axis, panel) in enumerate(zip(axes.flat, found, strict=False)):
            _draw_panel(axis, panel)
            if thresholds:
                axis.axhline(
                    thresholds[index], color="black", linestyle="--", linewidth=1
                )


def _draw_panel(axis: Any, panel: Panel) -> None:
    from matplotlib import ticker, transforms

    from tfagents_batch.training.analysis import curves

    for number, (label, read) in enumerate(panel.lines):
        color = f"tab:{_COLORS[number % len(_COLORS)]}"
        for curve in read if len(read) > 1 else ():
            axis.plot(curve.step, curve.value, color=color, alpha=0.25, linewidth=0.8)
        band = curves.band(read)
        axis.plot(band.step, band.mean, color=color, linewidth=2, label=label)
        axis.fill_between(band.step, band.low, band.high, color=color, alpha=0.2)
    axis.set_title(panel.title, fontsize=10)
    axis.set_xlabel("environment steps")
    axis.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    axis.set_ylabel(panel.metric)
    axis.grid(alpha=0.3)
    # The legend is below the panel because names of groups can be long.
    below = transforms.ScaledTranslation(0, -0.5, axis.figure.dpi_scale_trans)
    axis.legend(
        fontsize=8,
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=axis.transAxes + below,
    )


if __name__ == "__main__":
    sys.exit(app.run(main))
