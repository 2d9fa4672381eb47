"""One HTML file on the evaluation of a policy, without anything from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfagents_batch.evaluation.result import (
    Diagnostics,
    EstimateInterval,
    OfflineEvaluation,
)
from tfagents_batch.evaluation.rules import DeployDecision
from tfagents_batch.evaluation.totals import EDGES
from tfagents_batch.offline.report import number

_NAMES = {
    "fqe": "fitted Q (FQE)",
    "sdr": "doubly robust",
    "wsdr": "weighted doubly robust",
    "magic": "MAGIC",
    "wpdis": "weighted per decision",
    "pdis": "per decision",
    "wis": "weighted episodes",
    "ips": "episodes",
}
_ONE_STEP = {
    "dm": "direct method",
    "ips": "IPS",
    "dr": "doubly robust",
    "sndr": "self-normalized DR",
    "switch_dr": "switch-DR",
    "snips": "self-normalized IPS",
}
_WIDTH, _ROW, _LEFT, _RIGHT = 950, 26, 190, 90
_BLUE, _GRAY, _RED, _AXIS = "#2563c9", "#98a1b0", "#dc2626", "#c9ced6"
_COLORS = {"deploy": "#15803d", "do not deploy": "#dc2626", "cannot tell": "#b45309"}
_MARKS = {
    "passed": ("✓", "#15803d"),
    "failed": ("✗", "#dc2626"),
    "unknown": ("?", "#b45309"),
}
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;color:#1c2430;background:#fff;margin:0}
main{max-width:1000px;margin:0 auto;padding:28px 24px 60px}
h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:36px 0 6px}
h3{font-size:15px;margin:20px 0 4px}
p{margin:4px 0 10px;max-width:820px}.quiet{color:#5b6472}
.verdict{border-radius:8px;color:#fff;padding:16px 22px;margin:18px 0}
.verdict b{display:block;font-size:26px;margin-bottom:2px}
.warning{border-left:4px solid #d97706;background:#fff8eb;padding:8px 14px;margin:4px 0}
table{border-collapse:collapse}td,th{padding:5px 18px 5px 0;vertical-align:top;
 text-align:left;border-top:1px solid #e3e6eb}th{border:0;color:#5b6472;font-size:13px}
td.mark{font-weight:700;font-size:17px}
td:first-child,.mark+td{white-space:nowrap}
.side{display:flex;flex-wrap:wrap;gap:8px 40px}
.key i{display:inline-block;width:12px;height:12px;margin:0 6px 0 14px}
svg{display:block;margin:8px 0;max-width:100%;height:auto}
svg text{font:12px system-ui,sans-serif;fill:#374151}
"""


def page(result: OfflineEvaluation, decision: DeployDecision) -> str:
    """Return the page of an evaluation and what the rules say of it."""
    name, data = html.escape(result.policy), html.escape(result.data)
    warnings = "".join(
        f'<div class="warning">{html.escape(x)}</div>' for x in result.warnings
    )
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{name}: {decision.verdict}</title>
<style>{_STYLE}</style><main>
<h1>{name}</h1>
<p class="quiet">evaluated on {result.diagnostics.rows:,} rows of
{result.diagnostics.episodes:,} episodes in {data}{_origin(result)}</p>
<div class="verdict" style="background:{_COLORS[decision.verdict]}">
<b>{decision.verdict[0].upper()}{decision.verdict[1:]}</b>
{html.escape(decision.reason)}</div>
{warnings}
{_values(result, decision)}
<h2>Rules</h2>{_rules(decision)}
{_trust(result.diagnostics)}
{_actions(result.diagnostics)}
{_one_step(result)}
</main></html>
"""


def _origin(result: OfflineEvaluation) -> str:
    """Return the checkpoint of a run, and how it explores; nothing of a function."""
    step = result.facts.get("step")
    if step is None:
        return ""
    share = result.facts["exploration"]
    return f"; checkpoint of step {step:,}, with {100 * share:.3g}% random decisions"


def _place(estimate: tuple[str, object]) -> int:
    """Return the place of an estimator on the page; one without a name is last."""
    names = [*_NAMES]
    return names.index(estimate[0]) if estimate[0] in _NAMES else len(names)


def _values(result: OfflineEvaluation, decision: DeployDecision) -> str:
    parts = [
        "<h2>What an episode is worth</h2><p>Discounted sum over an episode. Lines are "
        "95 % intervals; the gray band is the log itself. The bold line decides. "
        "Estimators that use a model of values and weights (doubly robust, MAGIC) are "
        "right if one of the two is; those by weights alone vary most.</p>"
    ]
    for metric in result.metrics:
        lines = [
            Line(_NAMES.get(x, x), rows[metric].value, x == decision.estimator)
            for x, rows in sorted(result.estimates.items(), key=_place)
        ]
        base = result.logged[metric]
        unit = f"{html.escape(metric)} per episode (log: {number(base.value)})"
        if len(result.metrics) > 1:
            parts.append(f"<h3>{html.escape(metric)}</h3>")
        parts.append(intervals(lines, base, unit))
    return "".join(parts)


def _rules(decision: DeployDecision) -> str:
    rows = []
    for finding in decision.findings:
        mark, color = _MARKS[finding.state]
        rows.append(
            f'<tr><td class="mark" style="color:{color}">{mark}<td>'
            f"{html.escape(finding.rule)}<td>{html.escape(finding.text)}"
        )
    return f"<table>{''.join(rows)}</table>"


def _trust(diagnostics: Diagnostics) -> str:
    cells = "states" if diagnostics.exact_cells else "groups of similar states"
    return f"""<h2>How much the log knows of this policy</h2>
<p>A weight is the probability of the policy's actions divided by that of the logging
policy. Near 1, both act alike. A red bar at 0 are episodes that the policy would never
produce; bars far to the right are few episodes that stand for many.</p>
<div class="side"><div><h3>Weights of decisions</h3>
{weights(diagnostics.ratios, "weights of decisions")}</div>
<div><h3>Weights of episodes</h3>
{weights(diagnostics.weights, "weights of episodes")}</div></div>
<table>
<tr><td>effective episodes<td>{diagnostics.effective:,.1f} of {diagnostics.episodes:,}
<tr><td>largest weight<td>{diagnostics.largest_share:.1%} of the sum of all weights
<tr><td>weights above the cap<td>in {diagnostics.capped:.1%} of the episodes
<tr><td>reach<td>{diagnostics.reach:.2%} chance of a decision that was logged less than
5 times, by {diagnostics.cells:,} {cells}
<tr><td>values were fitted to<td>{diagnostics.fitted_rows:,} rows of
{diagnostics.fitted_episodes:,} episodes
<tr><td>episodes that were cut off<td>{diagnostics.cut:.1%}
</table>"""


def _actions(diagnostics: Diagnostics) -> str:
    return f"""<h2>Actions in the logged states</h2>
<p class="key"><i style="background:#98a1b0"></i>log<i style="background:#2563c9"></i>
policy; they differ by {diagnostics.variation:.1%} (total variation)</p>
{actions(diagnostics.logged, diagnostics.served)}"""


def _one_step(result: OfflineEvaluation) -> str:
    lines = [
        Line(_ONE_STEP.get(x, x), rows["reward"].value)
        for x, rows in result.one_step.items()
    ]
    base = result.logged_step["reward"]
    return f"""<h2>Reward of one decision</h2>
<p>These estimates change one decision and leave the rest of the episode as it was. They
are no values of the policy, unless an episode is one decision.</p>
{intervals(lines, base, "reward per decision")}"""


class Line(NamedTuple):
    """Line of a plot of intervals."""

    name: str
    estimate: EstimateInterval
    decides: bool = False  # True for the estimate that decides


def intervals(lines: Sequence[Line], base: EstimateInterval, unit: str) -> str:
    """Return a plot of estimates with their intervals, from top to bottom.

    The band is the ``base``, the value of the log. The axis, with ``unit`` below, holds
    the log and what decides; what reaches beyond it has an arrow.
    """
    finite = [x for x in lines if np.isfinite([x.estimate.low, x.estimate.high]).all()]
    first = [x for x in finite if x.decides] or finite[:1]
    shown = [base, *(x.estimate for x in first)]
    ends = [y for x in shown for y in (x.low, x.high) if np.isfinite(y)]
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
    shown = line.estimate
    if not np.isfinite([shown.low, shown.high, shown.value]).all():
        return name + _text(_LEFT, y + 4, "not defined")
    value = _text(_WIDTH - _RIGHT + 12, y + 4, number(shown.value), bold=line.decides)
    ends = ""
    for end, beyond, mark in (
        (shown.low, shown.low < low, "l7 -5v10z"),
        (shown.high, shown.high > high, "l-7 -5v10z"),
    ):
        if beyond:
            ends += f'<path d="M{at(end):.1f} {y}{mark}" fill="{color}"/>'
    dot = ""
    if low <= shown.value <= high:
        dot = f'<circle cx="{at(shown.value):.1f}" cy="{y}" r="4.5" fill="{color}"/>'
    return (
        f'{name}{value}<path d="M{at(shown.low):.1f} {y}H{at(shown.high):.1f}" '
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

    Counts are those of weights 0, then of the intervals of ``totals.EDGES``.
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
