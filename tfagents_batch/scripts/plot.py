"""Plot learning curves: ``tfagents-batch plot --logdir=logs``.

Runs that differ only in their seed become one line: their mean with a 95 % bootstrap
interval, and each run as a thin line. ``--compare`` puts different runs into one panel,
named by the flags in which they differ.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import command_line
from tfagents_batch.training.log import console
from tfagents_batch.training.run_folder import runs

if TYPE_CHECKING:
    from tfagents_batch.training.log import curves

TRAIN, EVAL = "episode/return_mean", "eval/return_mean"
_RETURNS = {
    TRAIN: "training",
    EVAL: "evaluation",
    "eval_sample/return_mean": "evaluation with sampled actions",
}
# A page shows two panels side by side at nearly their size, so 9 points can be read.
_COLUMNS, _INCHES, _POINTS = 2, (4.4, 4), 9
_LEGEND = 50  # characters of a line of a legend or a title
_COLORS = ("blue", "orange", "green", "red", "purple", "brown", "pink", "olive", "cyan")


@dataclasses.dataclass(frozen=True)
class PlotCommand:
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
        (), "returns to mark with a dashed line: one for all panels, or one per panel"
    )
    debug: bool = option(False, "print tracebacks")


class Panel(NamedTuple):
    """Panel of a figure."""

    # Texts above the panel and at its y-axis
    title: str
    quantity: str
    # Pairs of a legend label and the curves of its runs
    lines: list[tuple[str, list[curves.Curve]]]


def main(argv: Sequence[str]) -> int:
    """Parse flags, write a PNG file and print its path."""
    command = command_line.parse(argv, PlotCommand)
    runs.open_runs(command.logdir)  # its errors need no TensorFlow
    command_line.import_tensorflow()
    # Imported here, as in the functions below, because TensorFlow takes seconds.
    from tfagents_batch.training.log import curves

    with console.doing("reading runs"):
        groups = curves.group(command.logdir)
        shown = panels(groups, command.metric, command.compare)
    thresholds = command.threshold
    if len(thresholds) == 1:
        thresholds *= len(shown)
    if thresholds and len(thresholds) != len(shown):
        titles = "; ".join(panel.title for panel in shown)
        raise UserError(
            f"there are {len(thresholds)} thresholds for {len(shown)} panels "
            f"({titles}); pass one for all, or one for each panel"
        )
    with console.doing("drawing"):
        draw(shown, thresholds, command.out)
    command_line.show(command.out)
    return 0


def panels(
    groups: Sequence[curves.CurveGroup], metrics: Sequence[str], compare: bool
) -> list[Panel]:
    """Return the panels to draw; report runs without the metric on stderr.

    Args:
      groups: result of ``curves.group``.
      metrics: names; empty means returns of training and, if logged, of evaluations.
      compare: True for one panel per environment and metric with a line per group;
        False for one panel per group with a line per metric.
    """
    from tfagents_batch.training.log import curves

    problem: UserError | None = None
    by_key: dict[tuple[str, str], Panel] = {}
    for group in groups:
        for metric in metrics or (TRAIN, EVAL):
            read, seeds = [], set()
            for folder, seed in group.seeds.items():
                try:
                    read.append(curves.read(folder, metric))
                    seeds.add(seed)
                except UserError as error:
                    if metrics or metric == TRAIN:  # evaluations are optional
                        text = f"{folder} is left out: it has no {metric}"
                        command_line.say(text)
                    problem = problem or error
            if not read:
                continue
            quantity = "return" if metric in _RETURNS else metric
            phase = _RETURNS.get(metric, metric)
            name, title = phase, f"{group.name} on {group.env}"
            if compare:
                name, title = group.name, f"{group.env}, {phase}"
            label = f"{name}: {_summary(len(read), len(seeds))}"
            key = title, metric if compare else ""
            panel = by_key.setdefault(key, Panel(title, quantity, []))
            panel.lines.append((label, read))
            if panel.quantity != quantity:
                by_key[key] = panel._replace(quantity="")
    if problem is not None and not by_key:
        raise problem
    return list(by_key.values())


def _summary(runs: int, seeds: int) -> str:
    """Describe the line of a number of runs; two of them may have the same seed."""
    if runs == 1:
        return "1 seed"
    return f"mean of {runs} {'seeds' if runs == seeds else 'runs'}, 95 % interval"


def draw(shown: Sequence[Panel], thresholds: Sequence[float], out: str) -> None:
    """Draw panels, with a threshold for each or none, and write them to a PNG file."""
    from tfagents_batch.training.log import curves

    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    size = _INCHES[0] * columns, _INCHES[1] * rows
    with curves.panels(rows, columns, size, out) as axes:
        for axis in axes.flat[len(shown) :]:
            axis.set_visible(False)
        for index, (axis, panel) in enumerate(zip(axes.flat, shown, strict=False)):
            _draw_panel(axis, panel, thresholds[index] if thresholds else None)


def _draw_panel(axis: Any, panel: Panel, threshold: float | None) -> None:
    from matplotlib import ticker, transforms

    from tfagents_batch.training.log import curves

    for number, (label, read) in enumerate(panel.lines):
        color = f"tab:{_COLORS[number % len(_COLORS)]}"
        for curve in read if len(read) > 1 else ():
            thin = {"alpha": 0.25, "linewidth": 0.8, "marker": _marker(curve.step)}
            axis.plot(curve.step, curve.value, color=color, **thin)
        band = curves.band(read)
        thick = {"linewidth": 2, "marker": _marker(band.step), "label": _folded(label)}
        axis.plot(band.step, band.mean, color=color, **thick)
        axis.fill_between(band.step, band.low, band.high, color=color, alpha=0.2)
    if threshold is not None:
        curves.mark(axis, threshold)
    axis.set_title(_folded(panel.title), fontsize=10)
    axis.set_xlabel("environment steps")
    axis.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    axis.set_ylabel(panel.quantity)
    axis.grid(alpha=0.3)
    # The legend is below the panel because names of groups can be long.
    below = transforms.ScaledTranslation(0, -0.5, axis.figure.dpi_scale_trans)
    axis.legend(
        fontsize=_POINTS,
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=axis.transAxes + below,
    )


def _marker(steps: Sequence[int]) -> str:
    """Return the marker of a curve: one of a single point has no line to be seen."""
    return "o" if steps[0] == steps[-1] else ""


def _folded(text: str) -> str:
    return textwrap.fill(text, _LEGEND, break_on_hyphens=False)
