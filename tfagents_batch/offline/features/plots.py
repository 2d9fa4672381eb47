"""Histograms as SVG, to be written into a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

WIDTH, HEIGHT = 230, 84  # of a plot, in pixels
_TOP, _BOTTOM = 4, 15  # margins; numbers are written into the lower one
_BINS = 40
_CATEGORIES = 12  # values up to which each one has a bar
_TAIL = 0.005  # share of the values on each side that may lie in the outer bars


class Bars(NamedTuple):
    """Bars of a histogram.

    Attributes:
      heights: shares of the values.
      labels: text below each bar; or below the first and the last one.
    """

    heights: np.ndarray
    labels: tuple[str, ...]


def bars(values: np.ndarray, bounds: tuple[float, float] | None = None) -> Bars:
    """Return the bars of numbers: of each value if there are few, else of intervals.

    Numbers in long tails are counted in the first and in the last interval.

    Args:
      values: ``[n]``.
      bounds: of all intervals; None for those of most values.
    """
    values = np.asarray(values, np.float64)
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= _CATEGORIES:
        return Bars(counts / len(values), tuple(map(number, distinct)))
    low, high = _most(values) if bounds is None else bounds
    edges = np.linspace(low, high, _BINS + 1)
    inside = np.clip(np.searchsorted(edges, values, "right") - 1, 0, _BINS - 1)
    heights = np.bincount(inside, minlength=_BINS) / len(values)
    below = "≤ " if distinct[0] < low else ""
    above = "≥ " if distinct[-1] > high else ""
    return Bars(heights, (below + number(low), above + number(high)))


def _most(values: np.ndarray) -> tuple[float, float]:
    """Return bounds that leave out only what is far in the tails."""
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    more = 0.25 * (high - low)  # with which a normal distribution has no tails
    if not more:
        return values.min(), values.max()
    return max(low - more, values.min()), min(high + more, values.max())


def svg(given: Bars, color: str, title: str) -> str:
    """Return a plot of bars; a browser shows the title at the mouse."""
    count = len(given.heights)
    room = WIDTH / max(count, 4)  # one bar alone is not as wide as the plot
    gap = min(0.15 * room, 3)
    size = HEIGHT - _TOP - _BOTTOM
    scaled = given.heights / max(given.heights.max(), 1e-12) * size
    left = (WIDTH - room * count) / 2
    path = "".join(
        f"M{left + k * room + gap / 2:.1f} {HEIGHT - _BOTTOM}v{-h:.1f}h{room - gap:.1f}"
        f"v{h:.1f}z"
        for k, h in enumerate(scaled)
        if h > 0
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img"><title>{title}</title>'
        f'<path d="M0 {HEIGHT - _BOTTOM}.5h{WIDTH}" stroke="#c9ced6"/>'
        f'<path d="{path}" fill="{color}"/>{_labels(given, left, room)}</svg>'
    )


def _labels(given: Bars, left: float, room: float) -> str:
    y, names = HEIGHT - 3, given.labels
    if len(names) == len(given.heights):
        widest = max(map(len, names))
        every = int(np.ceil(widest * 6 / room))  # a digit is about 6 pixels wide
        return "".join(
            f'<text x="{left + (k + 0.5) * room:.1f}" y="{y}" '
            f'text-anchor="middle">{name}</text>'
            for k, name in enumerate(names)
            if k % every == 0
        )
    first, last = names
    return (
        f'<text x="0" y="{y}">{first}</text>'
        f'<text x="{WIDTH}" y="{y}" text-anchor="end">{last}</text>'
    )


def of_columns(normalized: np.ndarray, labels: Sequence[str]) -> Bars:
    """Return the share of rows in which each column is 1."""
    return Bars(normalized.mean(0), tuple(labels))


def number(x: float) -> str:
    """Return a number in about 6 characters."""
    return f"{x:,.0f}" if 1000 <= abs(x) < 1e6 else f"{x:.3g}"
