"""Plots of an evaluation as SVG, to be written into a page."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfagents_batch.evaluation.result import Interval
from tfagents_batch.evaluation.totals import EDGES
from tfagents_batch.offline.features.plots import number

_WIDTH, _ROW, _LEFT, _RIGHT = 950, 26, 190, 90
_BLUE, _GRAY, _RED, _AXIS = "#2563c9", "#98a1b0", "#dc2626", "#c9ced6"


class Line(NamedTuple):
    """Line of a plot of intervals: ``name``, ``given`` and whether it ``decides``."""

    name: str
    given: Interval
    decides: bool = False


def intervals(lines: Sequence[Line], base: Interval, unit: str) -> str:
    """Return a plot of estimates with their intervals, beside that of the log.

    The axis holds the log and what decides; what reaches beyond it has an arrow.

    Args:
      lines: estimates, from top to bottom.
      base: value of the log, drawn as a band.
      unit: text below the axis.
    """
    finite = [x for x in lines if np.isfinite([x.given.low, x.given.high]).all()]
    first = [x.given for x in finite if x.decides] or [x.given for x in finite[:1]]
    ends = [y for x in (*first, base) for y in (x.low, x.high) if np.isfinite(y)]
    ends = ends or [base.value, base.value + 1]
    room = max(max(ends) - min(ends), 1e-9) * 0.6
    low, high = min(ends) - room, max(ends) + room

    def at(x: float) -> float:
        share = (min(max(x, low), high) - low) / (high - low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    height = _ROW * len(lines)
    parts = [
        _bar(at(base.low), 0, max(at(base.high) - at(base.low), 1), height, "#e9ecf1"),
        _dashed(at(base.value), height),
    ]
    parts += [_interval(x, i, at, low, high) for i, x in enumerate(lines)]
    parts.append(_axis(low, high, at, height, unit))
    return _svg(_WIDTH, height + 36, parts, "estimates")


def _interval(line: Line, index: int, at, low: float, high: float) -> str:
    y = _ROW * index + _ROW / 2
    color = _BLUE if line.decides else "#64748b"
    name = _text(_LEFT - 12, y + 4, html.escape(line.name), "end", line.decides)
    given = line.given
    if not np.isfinite([given.low, given.high, given.value]).all():
        return name + _text(_LEFT, y + 4, "not defined")
    value = _text(_WIDTH - _RIGHT + 12, y + 4, number(given.value), bold=line.decides)
    ends = ""
    for end, beyond, mark in (
        (given.low, given.low < low, "l7 -5v10z"),
        (given.high, given.high > high, "l-7 -5v10z"),
    ):
        if beyond:
            ends += f'<path d="M{at(end):.1f} {y}{mark}" fill="{color}"/>'
    dot = ""
    if low <= given.value <= high:
        dot = f'<circle cx="{at(given.value):.1f}" cy="{y}" r="4.5" fill="{color}"/>'
    return (
        f'{name}{value}<path d="M{at(given.low):.1f} {y}H{at(given.high):.1f}" '
        f'stroke="{color}" stroke-width="{3 if line.decides else 2}"/>{ends}{dot}'
    )


def _axis(low: float, high: float, at, height: int, unit: str) -> str:
    step = 10 ** np.floor(np.log10((high - low) / 3))
    step *= next(x for x in (1, 2, 5, 10) if (high - low) / (step * x) <= 6)
    ticks = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    parts = [f'<path d="M{_LEFT} {height}.5H{_WIDTH - _RIGHT}" stroke="{_AXIS}"/>']
    for x in ticks:
        parts.append(f'<path d="M{at(x):.1f} {height}v5" stroke="{_AXIS}"/>')
        parts.append(_text(at(x), height + 18, number(x + 0.0), "middle"))
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return "".join([*parts, _text(middle, height + 33, unit, "middle")])


def actions(logged: Mapping[str, float], served: Mapping[str, float]) -> str:
    """Return bars of the shares of actions: of the log, and of the policy."""
    names = sorted(logged, key=lambda x: -max(logged[x], served[x]))[:20]
    most = max(*logged.values(), *served.values(), 1e-9)
    parts = []
    for i, name in enumerate(names):
        y = 34 * i
        parts.append(_text(_LEFT - 12, y + 18, html.escape(name), "end"))
        for top, share, color in (
            (y + 3, logged[name], _GRAY),
            (y + 16, served[name], _BLUE),
        ):
            width = share / most * (_WIDTH - _LEFT - _RIGHT)
            parts.append(_bar(_LEFT, top, max(width, 1), 11, color))
            parts.append(_text(_LEFT + width + 6, top + 10, f"{share:.1%}"))
    return _svg(_WIDTH, 34 * len(names) + 4, parts, "shares of actions")


def weights(counts: Sequence[int], title: str) -> str:
    """Return a histogram of weights on a logarithmic axis; weights of 0 stand apart.

    Args:
      counts: see ``totals.Totals``: of weights 0, then of the intervals of ``EDGES``.
      title: text that a browser shows at the mouse.
    """
    height, width, left = 110, 455, 70
    shares = np.array(counts) / max(sum(counts), 1)
    zeros, *sizes = shares * (height - 8) / max(shares.max(), 1e-9)
    room = (width - left) / len(sizes)

    def at(power: float) -> float:
        return left + (power - EDGES[0]) / (EDGES[-1] - EDGES[0]) * (width - left)

    parts = [
        _bar(10, height - zeros, 30, zeros, _RED),
        _text(25, height + 15, "0", "middle"),
        f'<path d="M0 {height}.5H{width}" stroke="{_AXIS}"/>',
        _dashed(at(0), height),
    ]
    for i, size in enumerate(sizes):
        x = left + i * room + 0.5
        parts.append(_bar(x, height - size, room - 1, size, _BLUE))
    for power in range(int(EDGES[0]), int(EDGES[-1]) + 1, 2):
        text = "1" if power == 0 else f"10<tspan dy='-4' font-size='8'>{power}</tspan>"
        anchor = "end" if power == EDGES[-1] else "middle"
        parts.append(_text(at(power), height + 15, text, anchor))
    return _svg(width, height + 22, parts, title)


def _bar(x: float, y: float, width: float, height: float, color: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill="{color}"/>'
    )


def _dashed(x: float, height: float) -> str:
    return f'<path d="M{x:.1f} 0V{height}" stroke="{_GRAY}" stroke-dasharray="4 3"/>'


def _text(x: float, y: float, content: str, anchor: str = "start", bold=False) -> str:
    weight = ' font-weight="700"' if bold else ""
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}"{weight}>{content}</text>'


def _svg(width: int, height: int, parts: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{html.escape(title)}</title>{"".join(parts)}</svg>'
    )
