"""Measure a row: contenders alternate, their work is compared, ratios are computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from benchmarks.contenders import CONTENDERS
from benchmarks.measure import process, ratios
from benchmarks.measure.process import Failure, Result, report
from benchmarks.measure.rows import Row


class DifferentWork(Exception):
    """Two contenders did different work, so their figures cannot be compared."""


def play(
    row: Row, pairs: int, run: Callable[[str, int], Result | Failure]
) -> process.Played:
    """Run the rounds of a row; raise ``DifferentWork`` if its contenders' work differs.

    ``run`` runs a contender once, in the round of a number from 1.
    """
    seen: dict[str, Result] = {}

    def compared(name: str, number: int) -> Result | Failure:
        result = run(name, number)
        if isinstance(result, Failure):
            return result
        if not seen:
            report(f"work: {result['same']}")
        else:
            _check_same(name, next(iter(seen.values())), result)
        if name not in seen:
            seen[name] = result
            report(f"{name}: {result['own']} {result['versions']}")
            for key, why in result.get("differs", {}).items():
                report(f"{name}: {key} is {result['same'].get(key)}: {why}")
        rate = f"{result['value']:,.0f} {result['unit']}"
        report(f"round {number} of {pairs}: {name}: {rate}")
        return result

    names = [row.subject, *row.rivals]
    return process.alternate(names, pairs, compared, needed=row.subject)


def lines(name: str, row: Row, played: process.Played) -> list[Result]:
    """Return the lines to record: one for each rival, with its figures or a failure."""
    recorded = []
    for rival in row.rivals:
        contender = CONTENDERS[rival]
        line = {
            "row": name,
            "title": row.title,
            "subject": row.subject,
            "subject_setting": CONTENDERS[row.subject].setting,
            "rival": rival,
            **{key: getattr(contender, key) for key in ("peer", "kind", "setting")},
            "goal": row.goal(contender),
            "config": dataclasses.asdict(row.work),
        }
        recorded.append(line)
        failure = played.failures.get(row.subject, played.failures.get(rival))
        if failure is not None:
            line["failed"] = failure._asdict()
            continue
        ours, theirs = played.results[row.subject], played.results[rival]
        compare = getattr(row.work, "compare_returns", True)
        line |= {
            "unit": ours[0]["unit"],
            "pairs": len(ours),
            "work": ours[0]["same"],
            "differs": _differs(row.subject, ours[0]) | _differs(rival, theirs[0]),
            **parity(ours, theirs, compare),
            **_side("subject", ours),
            **_side("rival", theirs),
        }
        figures = line["subject_values"], line["rival_values"]
        line["ratio"] = ratios.of_pairs(*figures)._asdict()
    return recorded


def _side(side: str, ran: Sequence[Result]) -> Result:
    """Return the fields of one side: its figures, median seconds, and properties."""
    values = [result["value"] for result in ran]
    phases = {
        phase: round(ratios.median([x["phases"][phase] for x in ran]).median, 4)
        for phase in ran[0]["phases"]
    }
    return {
        f"{side}_value": ratios.median(values).median,
        f"{side}_values": values,
        f"{side}_phases": phases,
        f"{side}_own": ran[0]["own"] | {"versions": ran[0]["versions"]},
    }


def parity(
    ours: Sequence[Result], theirs: Sequence[Result], compare: bool = True
) -> Result:
    """Return the learned returns; nothing for work without training.

    If every run has a return, and ``compare`` says that they are meaningful, there are
    also their means with 95 % intervals, and ``parity``: whether these overlap (None
    for a single round, without intervals).
    """
    if not all("returns" in result for result in [*ours, *theirs]):
        return {}
    values = [[result["returns"] for result in each] for each in (ours, theirs)]
    fields = {"subject_returns": values[0], "rival_returns": values[1], "parity": None}
    if not compare or None in values[0] or None in values[1]:
        return fields
    means = [ratios.mean(each) for each in values]
    return fields | {
        "subject_return": means[0]._asdict(),
        "rival_return": means[1]._asdict(),
        "parity": ratios.overlap(*means),
    }


def _check_same(name: str, first: Result, result: Result) -> None:
    """Refuse a result of different work, except for declared differences."""
    expected, got = first["same"], result["same"]
    declared = {*first.get("differs", {}), *result.get("differs", {})}
    differing = [
        f"{key} is {got.get(key)}, not {expected.get(key)}"
        for key in sorted({*expected, *got} - declared)
        if expected.get(key) != got.get(key)
    ]
    if differing:
        raise DifferentWork(f"{name} did other work: {'; '.join(differing)}")


def _differs(name: str, result: Result) -> Result:
    """Return ``{contender: {key: value and reason}}`` of the declared differences."""
    declared, same = result.get("differs", {}), result["same"]
    values = {key: {"is": same.get(key), "why": why} for key, why in declared.items()}
    return {name: values} if values else {}
