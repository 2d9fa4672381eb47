"""Figures of several panels, drawn without a display."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfagents_batch.errors import UserError, saving
from tfagents_batch.training.run_folder import files


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
      UserError: if matplotlib is missing, or does not know the kind of file.
      SaveError: if the file cannot be written.
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
    kind = Path(out).suffix[1:] or "png"
    known = figure.canvas.get_supported_filetypes()
    try:
        if kind not in known:
            raise UserError(
                f"{out} ends in .{kind}; expected .png or one of {', '.join(known)}"
            )
        yield axes
        figure.tight_layout()
        picture = io.BytesIO()
        figure.savefig(picture, dpi=120, format=kind)
        _write(Path(out), picture.getvalue())
    finally:
        pyplot.close(figure)


def _write(path: Path, data: bytes) -> None:
    """Write a file as a whole; a device, such as /dev/stdout, is written to."""
    if path.exists() and not path.is_file():
        with saving(path):
            path.write_bytes(data)
    else:
        files.write_atomic(Path(os.path.realpath(path)), data)


def mark(axis: Any, threshold: float) -> None:
    """Draw a dashed line at a threshold, with an entry for the legend."""
    label = f"threshold {threshold:,g}"
    axis.axhline(threshold, color="black", linestyle="--", linewidth=1, label=label)
