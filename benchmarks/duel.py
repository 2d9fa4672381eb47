"""Plays a row: contenders alternate, their work is compared, ratios are taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks import ratios
from benchmarks.contenders import Contender
from benchmarks.process import Failure
from benchmarks.rows import Row

Result = dict[str, Any]
Run = Callable[[str], Result | Failure]


class DifferentWork(Exception):
    """Two contenders did not do the same: their figures cannot be compared."""


class Played(NamedTuple):
    """What came out of a row.

    Attributes:
      results: ``{contender: results}``, one a round.
      failures: ``{contender: failure}``; it sat out the rounds that followed.
    """

    results: dict[str, list[Result]]
    failures: dict[str, Failure]


def play(
    row: Row, pairs: int, run: Run, report: Callable[[str], None] = print
) -> Played:
    """Play the rounds of a row, one contender at a time.

    Args:
      row: to play.
      pairs: rounds.
      run: plays a contender once.
      report: told what happens.

    Raises:
      DifferentWork: naming what differs.
    """
    results: dict[str, list[Result]] = {row.subject: []}
    failures: dict[str, Failure] = {}
    order = ratios.rounds([row.subject, *row.rivals], pairs)
    for number, names in enumerate(order, 1):
        for name in names:
            if name in failures or row.subject in failures:
                continue
            result = run(name)
            if isinstance(result, Failure):
                failures[name] = result
                report(f"failed: {result}")
                continue
            first = next((x[0] for x in results.values() if x), None)
            if first is None:
                report(f"work: {result['same']}")
            else:
                _same(name, first["same"], result["same"])
            if name not in results or not results[name]:
                report(f"{name}: {result['own']} {result['versions']}")
            results.setdefault(name, []).append(result)
            value, unit = result["value"], result["unit"]
            report(f"round {number} of {pairs}: {name}: {value:,.0f} {unit}")
    return Played(results, failures)


def lines(
    name: str, row: Row, played: Played, contenders: Mapping[str, Contender]
) -> list[Result]:
    """What to keep of a row: a line per rival, and one per contender that failed.

    Args:
      name: of the row.
      row: played.
      played: what came out.
      contenders: what they are.
    """
    found = []
    config = dataclasses.asdict(row.work)
    for rival in row.rivals:
        head = {
            "row": name,
            "title": row.title,
            "subject": row.subject,
            "rival": rival,
            **{k: getattr(contenders[rival], k) for k in ("peer", "kind", "setting")},
            "goal": row.goal(contenders[rival]),
            "config": config,
        }
        failure = played.failures.get(row.subject, played.failures.get(rival))
        if failure is not None:
            found.append({**head, "failed": failure._asdict()})
            continue
        mine, theirs = played.results[row.subject], played.results[rival]
        values = [[result["value"] for result in each] for each in (mine, theirs)]
        found.append(
            {
                **head,
                "unit": mine[0]["unit"],
                "pairs": len(mine),
                "ratio": ratios.of_pairs(*values)._asdict(),
                "subject_value": ratios.median(values[0]).median,
                "rival_value": ratios.median(values[1]).median,
                "subject_values": values[0],
                "rival_values": values[1],
                "subject_phases": _phases(mine),
                "rival_phases": _phases(theirs),
                "subject_own": mine[0]["own"] | {"versions": mine[0]["versions"]},
                "rival_own": theirs[0]["own"] | {"versions": theirs[0]["versions"]},
                "work": mine[0]["same"],
            }
        )
    return found


def _same(name: str, expected: Result, got: Result) -> None:
    differing = [
        f"{key} is {got.get(key)}, not {expected.get(key)}"
        for key in sorted({*expected, *got})
        if expected.get(key) != got.get(key)
    ]
    if differing:
        raise DifferentWork(f"{name} did other work: {'; '.join(differing)}")


def _phases(results: Sequence[Result]) -> dict[str, float]:
    """Median seconds of each phase."""
    return {
        phase: round(ratios.median([x["phases"][phase] for x in results]).median, 4)
        for phase in results[0]["phases"]
    }
