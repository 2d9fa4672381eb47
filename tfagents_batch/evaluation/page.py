"""One HTML file on the evaluation of a policy, without anything from elsewhere."""

from __future__ import annotations

import html

from tfagents_batch.evaluation import plots
from tfagents_batch.evaluation.plots import Line
from tfagents_batch.evaluation.result import Diagnostics, Evaluation
from tfagents_batch.evaluation.rules import Decision

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


def page(given: Evaluation, decision: Decision) -> str:
    """Return the page of an evaluation and what the rules say of it."""
    name, data = html.escape(given.policy), html.escape(given.data)
    warnings = "".join(
        f'<div class="warning">{html.escape(x)}</div>' for x in given.warnings
    )
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{name}: {decision.verdict}</title>
<style>{_STYLE}</style><main>
<h1>{name}</h1>
<p class="quiet">evaluated on {given.diagnostics.rows:,} rows of
{given.diagnostics.episodes:,} episodes in {data}{_origin(given)}</p>
<div class="verdict" style="background:{_COLORS[decision.verdict]}">
<b>{decision.verdict[0].upper()}{decision.verdict[1:]}</b>
{html.escape(decision.reason)}</div>
{warnings}
{_values(given, decision)}
<h2>Rules</h2>{_rules(decision)}
{_trust(given.diagnostics)}
{_actions(given.diagnostics)}
{_one_step(given)}
</main></html>
"""


def _origin(given: Evaluation) -> str:
    """Return the checkpoint of a run, and how it explores; nothing of a function."""
    step = given.facts.get("step")
    if step is None:
        return ""
    share = given.facts["exploration"]
    return f"; checkpoint of step {step:,}, with {100 * share:.3g}% random decisions"


def _values(given: Evaluation, decision: Decision) -> str:
    parts = [
        "<h2>What an episode is worth</h2><p>Discounted sum over an episode. Lines are "
        "95 % intervals; the gray band is the log itself. The bold line decides. "
        "Estimators that use a model of values and weights (doubly robust, MAGIC) are "
        "right if one of the two is; those by weights alone vary most.</p>"
    ]
    for metric in given.metrics:
        lines = [
            Line(_NAMES[x], given.estimates[x][metric].value, x == decision.estimator)
            for x in _NAMES
            if x in given.estimates
        ]
        base = given.logged[metric]
        unit = f"{html.escape(metric)} per episode (log: {plots.number(base.value)})"
        if len(given.metrics) > 1:
            parts.append(f"<h3>{html.escape(metric)}</h3>")
        parts.append(plots.intervals(lines, base, unit))
    return "".join(parts)


def _rules(decision: Decision) -> str:
    rows = []
    for finding in decision.findings:
        mark, color = _MARKS[finding.state]
        rows.append(
            f'<tr><td class="mark" style="color:{color}">{mark}<td>'
            f"{html.escape(finding.rule)}<td>{html.escape(finding.text)}"
        )
    return f"<table>{''.join(rows)}</table>"


def _trust(found: Diagnostics) -> str:
    cells = "states" if found.exact_cells else "groups of similar states"
    return f"""<h2>How much the log knows of this policy</h2>
<p>A weight is the probability of the policy's actions divided by that of the logging
policy. Near 1, both act alike. A red bar at 0 are episodes that the policy would never
produce; bars far to the right are few episodes that stand for many.</p>
<div class="side"><div><h3>Weights of decisions</h3>
{plots.weights(found.ratios, "weights of decisions")}</div>
<div><h3>Weights of episodes</h3>
{plots.weights(found.weights, "weights of episodes")}</div></div>
<table>
<tr><td>effective episodes<td>{found.effective:,.1f} of {found.episodes:,}
<tr><td>largest weight<td>{found.largest_share:.1%} of the sum of all weights
<tr><td>weights above the cap<td>in {found.capped:.1%} of the episodes
<tr><td>reach<td>{found.reach:.2%} chance of a decision that was logged less than 5
times, by {found.cells:,} {cells}
<tr><td>values were fitted to<td>{found.fitted_rows:,} rows of
{found.fitted_episodes:,} episodes
<tr><td>episodes that were cut off<td>{found.cut:.1%}
</table>"""


def _actions(found: Diagnostics) -> str:
    return f"""<h2>Actions in the logged states</h2>
<p class="key"><i style="background:#98a1b0"></i>log<i style="background:#2563c9"></i>
policy; they differ by {found.variation:.1%} (total variation)</p>
{plots.actions(found.logged, found.served)}"""


def _one_step(given: Evaluation) -> str:
    lines = [
        Line(_ONE_STEP[x], rows["reward"].value) for x, rows in given.one_step.items()
    ]
    base = given.logged_step["reward"]
    return f"""<h2>Reward of one decision</h2>
<p>These estimates change one decision and leave the rest of the episode as it was. They
are no values of the policy, unless an episode is one decision.</p>
{plots.intervals(lines, base, "reward per decision")}"""
