"""Plot learning curves: ``python -m tfagents_batch.scripts.plot --logdir=logs``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from tfagents_batch.scripts import app


def main(argv: Sequence[str]) -> int:
    """Parse flags and write a PNG: a panel for each kind of run, a line a seed."""
    from tfagents_batch.config import option
    from tfagents_batch.errors import UserError
    from tfagents_batch.training import curves

    @dataclasses.dataclass(frozen=True)
    class Command:
        """Of this script."""

        logdir: tuple[str, ...] = option(("logs",), "run folders, or folders of runs")
        out: str = option("learning_curves.png", "picture to write")
        metric: str = option("episode/return_mean", "what to plot")
        threshold: tuple[float, ...] = option((), "a dashed line in each panel")
        debug: bool = option(False, "show tracebacks")

    command = app.parse(argv, Command)
    if command is None:
        return 0
    groups = curves.group(command.logdir)
    if command.threshold and len(command.threshold) != len(groups):
        raise UserError(
            f"{len(command.threshold)} thresholds for {len(groups)} panels "
            f"({'; '.join(groups)}); expected one each"
        )
    bands = {}
    for name, folders in groups.items():
        lines = [curves.read(folder, command.metric) for folder in folders]
        bands[name] = (lines, curves.band(lines))
    draw(bands, command.metric, command.threshold, command.out)
    print(command.out)
    return 0


def draw(bands: dict, metric: str, thresholds: Sequence[float], out: str) -> None:
    """Write the picture.

    Args:
      bands: ``{title: (curves, band)}``, one panel each.
      metric: named on the vertical axis.
      thresholds: one for each panel, or none.
      out: path of the PNG.
    """
    from tfagents_batch.training.figure import panels

    with panels(1, len(bands), (5 * len(bands), 3.5), out) as axes:
        from matplotlib import ticker

        for index, (axis, (name, (lines, band))) in enumerate(
            zip(axes[0], bands.items(), strict=True)
        ):
            for line in lines:
                axis.plot(
                    line.step, line.value, color="tab:blue", alpha=0.25, linewidth=1
                )
            axis.plot(band.step, band.mean, color="tab:blue", linewidth=2)
            axis.fill_between(
                band.step, band.low, band.high, color="tab:blue", alpha=0.2
            )
            if thresholds:
                axis.axhline(
                    thresholds[index], color="black", linestyle="--", linewidth=1
                )
            runs = "1 run" if len(lines) == 1 else f"{len(lines)} runs"
            axis.set_title(f"{name} ({runs})", fontsize=10)
            axis.set_xlabel("environment steps")
            axis.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
            axis.set_ylabel(metric)
            axis.grid(alpha=0.3)


if __name__ == "__main__":
    sys.exit(app.run(main))
