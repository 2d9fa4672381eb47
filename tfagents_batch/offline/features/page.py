"""One HTML file on the features of logged rows, without anything from elsewhere."""

from __future__ import annotations

import collections
import html
from typing import NamedTuple

import numpy as np

from tfagents_batch.features.specification import TYPES, Feature
from tfagents_batch.offline.features.find import FoundFeature, Search
from tfagents_batch.offline.report import counted, number

WIDTH, HEIGHT = 230, 84  # of a plot, in pixels
_TOP, _BOTTOM = 4, 15  # margins; numbers are written into the lower one
_BINS = 40
_CATEGORIES = 12  # values up to which each one has a bar
_TAIL = 0.005  # share of the values on each side that may lie in the outer bars
_BEFORE, _AFTER = "#98a1b0", "#2563c9"
_COLORS = {
    "BINARY": "#6b7280",
    "PROBABILITY": "#0f766e",
    "CONTINUOUS": "#2563c9",
    "BOXCOX": "#7c3aed",
    "ENUM": "#b45309",
    "QUANTILE": "#be185d",
}
_MEANING = {
    "BINARY": "0 or not 0",
    "PROBABILITY": "log odds, then mean 0, standard deviation 1",
    "CONTINUOUS": "mean 0, standard deviation 1",
    "BOXCOX": "a power, then mean 0, standard deviation 1",
    "ENUM": "one column for each value",
    "QUANTILE": "share of smaller values",
    "CONTINUOUS_ACTION": "-1 to 1",
    "DISCRETE_ACTION": "unchanged",
    "DO_NOT_PREPROCESS": "unchanged",
    "CLIP_LOG": "logarithm, then mean 0, standard deviation 1",
}
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;color:#1c2430;background:#fff;margin:0}
main{max-width:1180px;margin:0 auto;padding:28px 24px 60px}
h1{font-size:25px;margin:0 0 4px}h2{font-size:18px;margin:34px 0 8px}
p{margin:4px 0 10px;max-width:860px}.quiet{color:#5b6472}
.types{display:flex;flex-wrap:wrap;gap:10px 26px;margin:18px 0 6px}
.types div{line-height:1.3}.types b{font-size:22px;margin-right:6px}
.chip{display:inline-block;border-radius:4px;padding:0 7px;color:#fff;font-size:12px;
 font-weight:600;letter-spacing:.02em;line-height:19px}
.odd{border-left:4px solid #d97706;background:#fff8eb;padding:8px 14px;margin:0 0 3px}
.odd.bad{border-color:#dc2626;background:#fef1f1}
.odd b{display:inline-block;min-width:96px}.odd a{color:inherit}
table{border-collapse:collapse;width:100%}
th{text-align:left;font-size:13px;color:#5b6472;font-weight:600;padding:4px 14px 4px 0}
td{border-top:1px solid #e3e6eb;padding:10px 14px 8px 0;vertical-align:top}
td.id b{font-size:18px}.note{color:#b45309;font-size:13px;margin-top:3px}
.note.bad{color:#dc2626}
.bar{background:#e9ecf1;height:7px;border-radius:4px;width:96px;margin-top:6px}
.bar i{display:block;height:7px;border-radius:4px;background:#2563c9}
.small{font-size:13px;color:#5b6472}svg{display:block}
svg text{font:11px system-ui,sans-serif;fill:#5b6472}
"""


def page(search: Search, source: str) -> str:
    """Return the page of a search; ``source`` says where the rows are from."""
    features = search.by_importance
    odd = [x for x in features if x.suspicions]
    rows = "".join(_row(x, _most(features)) for x in features)
    name = html.escape(source)
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Features of {name}</title>
<style>{_STYLE}</style><main>
<h1>{counted(len(features), "feature")} of {counted(search.rows, "row")}</h1>
<p class="quiet">{name}{_hash(search)}</p>
{_types(features)}
{_suspicious(odd)}
<h2>Features, those that say most about the reward first</h2>
<p class="quiet">{_explained(features)}</p>
<table><tr><th>feature<th>about the reward<th>present<th>raw values
<th>normalized values<th>parameters</tr>{rows}</table>
</main></html>
"""


def _explained(features: list[FoundFeature]) -> str:
    if not _most(features):
        return (
            "No feature alone says anything about the reward of its row, which may be "
            "constant. The order is that of the ids."
        )
    return (
        "“About the reward” is the mutual information of the feature and the reward of "
        "the same row, in bits, times the share of the rows that have the feature. It "
        "says nothing about later rewards, nor about two features together. Values in "
        "long tails are counted in the outer bars."
    )


def _types(features: list[FoundFeature]) -> str:
    counts = collections.Counter(
        x.feature.feature_type for x in features if x.feature is not None
    )
    parts = [
        f"<div><b>{counts[kind]:,}</b>{_chip(kind)}<br>"
        f'<span class="small">{_MEANING[kind]}</span></div>'
        for kind in TYPES
        if counts[kind]
    ]
    out = sum(x.feature is None for x in features)
    if out:
        parts.append(f'<div><b>{out:,}</b>left out<br><span class="small">see below')
        parts.append("</span></div>")
    return f'<div class="types">{"".join(parts)}</div>'


def _suspicious(odd: list[FoundFeature]) -> str:
    if not odd:
        return '<p class="quiet">Nothing is suspicious.</p>'
    rows = sorted(
        (s.name != "infinite", s.name, x.id, s.text) for x in odd for s in x.suspicions
    )
    lines = "".join(
        f'<div class="odd{"" if fine else " bad"}"><b>{name}</b> '
        f'<a href="#f{i}">feature {i}</a>: {html.escape(text)}</div>'
        for fine, name, i, text in rows
    )
    return f"<h2>Suspicious: {counted(len(odd), 'feature')}</h2>{lines}"


def _row(entry: FoundFeature, most: float) -> str:
    notes = "".join(
        f'<div class="note{" bad" if x.name == "infinite" else ""}">⚠ {x.name}</div>'
        for x in entry.suspicions
    )
    chip = "left out" if entry.feature is None else _chip(entry.feature.feature_type)
    share = min(entry.importance / most, 1.0) if most else 0.0
    before = after = ""
    if len(entry.sample):
        title = f"feature {entry.id}, raw values"
        before = svg(bars(entry.sample), _BEFORE, title)
    if entry.feature is not None:
        title = f"feature {entry.id}, normalized values"
        after = svg(_normalized(entry, entry.feature), _AFTER, title)
    return (
        f'<tr id="f{entry.id}"><td class="id"><b>{entry.id}</b><br>{chip}{notes}'
        f"<td>{entry.importance:.3f} bits{_bar(share)}"
        f"<td>{_percent(entry.facts.share)}{_bar(entry.facts.share)}"
        f'<td>{before}<td>{after}<td class="small">{_parameters(entry)}</tr>'
    )


def _normalized(entry: FoundFeature, feature: Feature) -> Bars:
    if feature.feature_type != "ENUM":
        bounds = (0.0, 1.0) if feature.feature_type == "QUANTILE" else None
        return bars(entry.normalized[:, 0], bounds)
    # The share of rows in which each column is 1.
    labels = tuple(f"={x}" for x in feature.possible_values or ())
    return Bars(entry.normalized.mean(0), labels)


def _parameters(entry: FoundFeature) -> str:
    facts, feature, why = entry.facts, entry.feature, entry.normality
    lines = []
    if facts.present > facts.infinite or not facts.infinite:
        lines.append(f"{number(facts.minimum)} to {number(facts.maximum)}")
    about = "" if facts.values else "about "
    lines.append(f"{about}{counted(facts.distinct, 'value')}")
    if feature is None:
        return "<br>".join(lines)
    if feature.boxcox_lambda is not None:
        lines.append(f"λ = {number(feature.boxcox_lambda)}")
    if feature.mean is not None:
        lines.append(f"mean {number(feature.mean)}, std {number(feature.stddev or 0)}")
    if feature.quantiles is not None:
        lines.append(counted(len(feature.quantiles), "quantile"))
    if why is not None:
        lines.append(f"K² {number(why.k2)}")
        if feature.feature_type == "BOXCOX":
            lines[-1] += f", after {number(why.k2_box_cox)}"
    return "<br>".join(lines)


def _most(features: list[FoundFeature]) -> float:
    """Return the largest importance, as shown."""
    return round(max((x.importance for x in features), default=0.0), 3)


def _bar(share: float) -> str:
    return f'<div class="bar"><i style="width:{100 * share:.1f}%"></i></div>'


def _percent(share: float) -> str:
    return f"{share:.0%}" if share in (0, 1) or share >= 0.1 else f"{share:.2%}"


def _chip(kind: str) -> str:
    color = _COLORS.get(kind, "#374151")
    return f'<span class="chip" style="background:{color}">{kind}</span>'


def _hash(search: Search) -> str:
    if search.problem:
        return ". There is no specification: values are infinite"
    return f", specification {search.specification.sha256[:12]}"


class Bars(NamedTuple):
    """Bars of a histogram."""

    heights: np.ndarray  # shares of the values
    labels: tuple[str, ...]  # text below each bar; or below the first and the last one


def bars(values: np.ndarray, bounds: tuple[float, float] | None = None) -> Bars:
    """Return the bars of numbers: of each value if there are few, else of intervals.

    Numbers in long tails are counted in the first and in the last interval. Without
    ``bounds`` of all intervals, they are those of most values.
    """
    values = np.asarray(values, np.float64)
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= _CATEGORIES:
        return Bars(counts / len(values), tuple(map(number, distinct)))
    low, high = _bounds(values) if bounds is None else bounds
    edges = np.linspace(low, high, _BINS + 1)
    inside = np.clip(np.searchsorted(edges, values, "right") - 1, 0, _BINS - 1)
    heights = np.bincount(inside, minlength=_BINS) / len(values)
    below = "≤ " if distinct[0] < low else ""
    above = "≥ " if distinct[-1] > high else ""
    return Bars(heights, (below + number(low), above + number(high)))


def _bounds(values: np.ndarray) -> tuple[float, float]:
    """Return bounds that leave out only what is far in the tails."""
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    more = 0.25 * (high - low)  # with which a normal distribution has no tails
    if not more:
        return values.min(), values.max()
    return max(low - more, values.min()), min(high + more, values.max())


def svg(shown: Bars, color: str, title: str) -> str:
    """Return a plot of bars; a browser shows the title at the mouse."""
    count = len(shown.heights)
    room = WIDTH / max(count, 4)  # one bar alone is not as wide as the plot
    gap = min(0.15 * room, 3)
    size = HEIGHT - _TOP - _BOTTOM
    scaled = shown.heights / max(shown.heights.max(), 1e-12) * size
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
        f'<path d="{path}" fill="{color}"/>{_labels(shown, left, room)}</svg>'
    )


def _labels(shown: Bars, left: float, room: float) -> str:
    y, names = HEIGHT - 3, shown.labels
    if len(names) == len(shown.heights):
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
