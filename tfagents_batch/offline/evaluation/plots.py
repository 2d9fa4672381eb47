"""Plots of an evaluation as SVG, to be written into a page."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfagents_batch.offline.evaluation.result import Interval
from tfagents_batch.offline.evaluation.totals import EDGES
from tfagents_batch.offline.features.plots import number

_WIDTH, _ROW, _LEFT, _RIGHT = 640, 26, 190, 90
_BLUE, _GRAY, _RED = "#2563c9", "#98a1b0", "#dc2626"


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
        f'<rect x="{at(base.low):.1f}" y="0" height="{height}" fill="#e9ecf1" '
        f'width="{max(at(base.high) - at(base.low), 1):.1f}"/>',
        f'<path d="M{at(base.value):.1f} 0v{height}" stroke="{_GRAY}" '
        'stroke-dasharray="4 3"/>',
    ]
    parts += [_interval(x, i, at, low, high) for i, x in enumerate(lines)]
    parts.append(_axis(low, high, at, height, unit))
    return _svg(_WIDTH, height + 36, "".join(parts), "estimates")


def _interval(line: Line, index: int, at, low: float, high: float) -> str:
    y = _ROW * index + _ROW / 2
    color = _BLUE if line.decides else "#64748b"
    bold = ' font-weight="700"' if line.decides else ""
    name = f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end"{bold}>'
    name += f"{html.escape(line.name)}</text>"
    given = line.given
    if not np.isfinite([given.low, given.high, given.value]).all():
        return f'{name}<text x="{_LEFT}" y="{y + 4}">not defined</text>'
    value = f'<text x="{_WIDTH - _RIGHT + 12}" y="{y + 4}"{bold}>{number(given.value)}'
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
        f"{name}{value}</text>"
        f'<path d="M{at(given.low):.1f} {y}H{at(given.high):.1f}" stroke="{color}" '
        f'stroke-width="{3 if line.decides else 2}"/>{ends}{dot}'
    )


def _axis(low: float, high: float, at, height: int, unit: str) -> str:
    step = 10 ** np.floor(np.log10((high - low) / 3))
    step *= next(x for x in (1, 2, 5, 10) if (high - low) / (step * x) <= 6)
    ticks = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    parts = [f'<path d="M{_LEFT} {height}.5H{_WIDTH - _RIGHT}" stroke="#c9ced6"/>']
    for x in ticks:
        parts.append(f'<path d="M{at(x):.1f} {height}v5" stroke="#c9ced6"/>')
        parts.append(
            f'<text x="{at(x):.1f}" y="{height + 18}" text-anchor="middle">'
            f"{number(x + 0.0)}</text>"
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{height + 33}" text-anchor="middle">{unit}</text>'
    )
    return "".join(parts)


def actions(logged: Mapping[str, float], served: Mapping[str, float]) -> str:
    """Return bars of the shares of actions: of the log, and of the policy."""
    names = sorted(logged, key=lambda x: -max(logged[x], served[x]))[:20]
    most = max(*logged.values(), *served.values(), 1e-9)
    parts = []
    for i, name in enumerate(names):
        y = 34 * i
        parts.append(
            f'<text x="{_LEFT - 12}" y="{y + 18}" text-anchor="end">'
            f"{html.escape(name)}</text>"
        )
        for offset, share, color in (
            (3, logged[name], _GRAY),
            (16, served[name], _BLUE),
        ):
            width = share / most * (_WIDTH - _LEFT - _RIGHT)
            parts.append(
                f'<rect x="{_LEFT}" y="{y + offset}" width="{max(width, 1):.1f}" '
                f'height="11" fill="{color}"/>'
                f'<text x="{_LEFT + width + 6:.1f}" y="{y + offset + 10}">'
                f"{share:.1%}</text>"
            )
    return _svg(_WIDTH, 34 * len(names) + 4, "".join(parts), "shares of actions")


def weights(counts: Sequence[int], title: str) -> str:
    """Return a histogram of weights on a logarithmic axis; weights of 0 stand apart.

    Args:
      counts: see ``totals.Totals``: of weights 0, then of the intervals of ``EDGES``.
      title: text that a browser shows at the mouse.
    """
    height, width, left = 110, 460, 70
    total = max(sum(counts), 1)
    shares = np.array(counts) / total
    scale = (height - 8) / max(shares.max(), 1e-9)
    room = (width - left) / (len(EDGES) - 1)
    parts = [
        f'<rect x="10" y="{height - shares[0] * scale:.1f}" width="30" '
        f'height="{shares[0] * scale:.1f}" fill="{_RED}"/>',
        f'<text x="25" y="{height + 15}" text-anchor="middle">0</text>',
        f'<path d="M0 {height}.5H{width}" stroke="#c9ced6"/>',
    ]
    for i, share in enumerate(shares[1:]):
        if share > 0:
            parts.append(
                f'<rect x="{left + i * room + 0.5:.1f}" width="{room - 1:.1f}" '
                f'y="{height - share * scale:.1f}" height="{share * scale:.1f}" '
                f'fill="{_BLUE}"/>'
            )
    for power in range(int(EDGES[0]), int(EDGES[-1]) + 1, 2):
        x = left + (power - EDGES[0]) / (EDGES[-1] - EDGES[0]) * (width - left)
        text = "1" if power == 0 else f"10<tspan dy='-4' font-size='8'>{power}</tspan>"
        anchor = "end" if power == EDGES[-1] else "middle"
        parts.append(
            f'<text x="{x:.1f}" y="{height + 15}" text-anchor="{anchor}">{text}</text>'
        )
    one = left + -EDGES[0] / (EDGES[-1] - EDGES[0]) * (width - left)
    parts.append(
        f'<path d="M{one:.1f} 0V{height}" stroke="{_GRAY}" stroke-dasharray="4 3"/>'
    )
    return _svg(width, height + 22, "".join(parts), title)


def _svg(width: int, height: int, content: str, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{html.escape(title)}</title>{content}</svg>'
    )
