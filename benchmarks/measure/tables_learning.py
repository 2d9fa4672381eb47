"""Table of times to a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.measure import reaching, results
from benchmarks.work.thresholds import OURS, PEER

Line = dict[str, Any]
PHASES = ("import", "construction", "first_iteration", "training")


def markdown(lines: Sequence[Line]) -> str:
    """Return a table with the newest run of every task: a row for each side.

    Args:
      lines: lines of ``learning.jsonl``.
    """
    rows = ["| task | | reached | median s (all) | env steps | sooner (95 %) | goal |"]
    rows.append("|---|---|---|---|---|---|---|")
    origins = []
    for name, found in results.newest(lines).items():
        ratio = reaching.of_lines(found, OURS, PEER)
        rows.append(_row(found, OURS, "ours", ratio))
        if any(line["contender"] == PEER for line in found):
            rows.append(_row(found, PEER, "Stable-Baselines3", None))
        origins.append(_origin(name, found))
    return "\n".join([*rows, "", *origins])


def _row(
    found: Sequence[Line], contender: str, side: str, ratio: reaching.Sooner | None
) -> str:
    mine = [line for line in found if line["contender"] == contender]
    ran = [line for line in mine if "failed" not in line]
    head, ours = mine[0] if mine else found[0], contender == OURS
    title = f"{head['title']}, {head['cache']} cache" if ours else ""
    goal = _goal(found) if ours else ""
    if not ran:
        reason = mine[0]["failed"]["reason"] if mine else "did not run"
        return f"| {title} | {side} | failed: {reason} | | | | {goal} |"
    seconds, reached = ([line[key] for line in ran] for key in ("seconds", "reached"))
    middle = reaching.median(seconds, reached)
    least = "" if middle.exact else "at least "
    every = ", ".join(
        f"{'' if line['reached'] else '> '}{line['seconds']:.1f}" for line in ran
    )
    steps = int(np.median([line["steps"] for line in ran]))
    return (
        f"| {title} | {side} | {sum(reached)} of {len(ran)} | {least}"
        f"{middle.seconds:.1f} ({every}) | {steps:,} | {_ratio(ratio)} | {goal} |"
    )


def _goal(found: Sequence[Line]) -> str:
    goal = f"{found[0]['goal']:g}"
    return goal if any(x["contender"] == PEER for x in found) else f"within {goal} s"


def _ratio(ratio: reaching.Sooner | None) -> str:
    if ratio is None:
        return ""
    if ratio.bound == "unknown":
        return "unknown"
    value, low, high = (f"{x:.3g}" for x in ratio.ratio)
    bound = f"{ratio.bound} " if ratio.bound else ""
    return f"{bound}{value} ({low} to {high})"


def _origin(name: str, found: Sequence[Line]) -> str:
    """Describe where a task was measured, and the median seconds of each phase."""
    parts = []
    for contender, side in ((OURS, "ours"), (PEER, "theirs")):
        ran = [x for x in found if x["contender"] == contender and "failed" not in x]
        if ran:
            medians = [
                f"{phase.replace('_', ' ')} "
                f"{np.median([line['phases'][phase] for line in ran]):.1f}"
                for phase in PHASES
            ]
            own = ran[0]["own"]
            if contender == PEER:
                setting = f"{own['vectorisation']}, {own['threads']} threads"
            elif own["workers"] is None:
                setting = "environments in the graph"
            else:
                setting = f"{own['workers']} workers"
            parts.append(f"{side} ({setting}) {', '.join(medians)} s")
    return results.origin(found[0], f"`{name}`: {'; '.join(parts)}")
