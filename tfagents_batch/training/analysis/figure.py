"""Figures of several panels, drawn without a display."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tfagents_batch.errors import UserError


@contextlib.contextmanager
def panels(
    rows: int, columns: int, size: tuple[float, float], out: str
) -> Iterator[Any]:
    """Yield axes to draw on; the figure is saved when the context ends.

    Args:
      rows, columns: number of panels in each direction.
      size: width and height of the figure in inches.
      out: path of the PNG file.

    Yields:
      matplotlib axes ``[rows, columns]``.

    Raises:
      UserError: if matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError:
        raise UserError(
            'plots need matplotlib: pip install "tfagents_batch[plot]"'
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False)
    try:
        yield axes
        figure.tight_layout()
        figure.savefig(out, dpi=120)
    finally:
        pyplot.close(figure)


def mark(axis: Any, threshold: float) -> None:
    """Draw a dashed line at a threshold, with an entry for the legend."""
    label = f"threshold {threshold:,g}"
    axis.axhline(threshold, color="black", linestyle="--", linewidth=1, label=label)
