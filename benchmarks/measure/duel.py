"""Measure a row: contenders alternate, their work is compared, ratios are computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.contenders import Contender
from benchmarks.measure import ratios
from benchmarks.measure.process import Failure
from benchmarks.measure.rows import Row

PROBES = 2  # runs of each setting; the better one counts

Result = dict[str, Any]
Run = Callable[[str, int], Result | Failure]


class DifferentWork(Exception):
    """Two contenders did different work, so their figures cannot be compared."""


class Played(NamedTuple):
    """Results of a row.

    Attributes:
      results: ``{contender: results}``, one result per round.
      failures: ``{contender: failure}``; a failed contender does not run again.
    """

    results: dict[str, list[Result]]
    failures: dict[str, Failure]


class Probed(NamedTuple):
    """Result of probing all settings of every peer.

    Attributes:
      row: row with the best setting of each peer. The subject stays; if another of its
        peer's settings is best, that one is a rival.
      values: ``{contender: value}`` of the probed contenders.
      failures: ``{contender: failure}`` of those that failed.
    """

    row: Row
    values: dict[str, float]
    failures: dict[str, Failure]


def each(
    rows: Mapping[str, Any],
    play: Callable[[str, Any], bool],
    report: Callable[[str], None] = print,
) -> bool:
    """Measure rows one after the other; a failed row does not affect the others.

    Args:
      rows: rows by name.
      play: function that records a row and returns whether a contender failed.
      report: called with the text of a failed row.

    Returns:
      whether anything failed.

    Raises:
      KeyboardInterrupt: after the interrupted row was reported.
    """
    failed = False
    for name, row in rows.items():
        try:
            failed |= play(name, row)
        except DifferentWork as error:
            report(f"row {name} ends here, incomplete: {error}")
            failed = True
        except KeyboardInterrupt:
            report(f"row {name} ends here, incomplete; those before it are recorded")
            raise
    return failed


def probe(
    row: Row,
    run: Callable[[str], Result | Failure],
    contenders: Mapping[str, Contender],
    report: Callable[[str], None] = print,
    probes: int = PROBES,
) -> Probed:
    """Run every setting of a peer, and select the best.

    The best of its runs counts, because other processes only slow a run down. A peer
    with one setting is not probed.

    Args:
      row: row of contenders; those with the same peer are settings of that peer.
      run: function that runs a contender for a short time.
      contenders: descriptions by name.
      report: called with texts about the progress.
      probes: number of runs of each setting.
    """
    groups: dict[str, list[str]] = {}
    for name in (row.subject, *row.rivals):
        groups.setdefault(contenders[name].peer, []).append(name)
    values: dict[str, float] = {}
    failures: dict[str, Failure] = {}
    probed = [x for names in groups.values() if len(names) > 1 for x in names]
    for name in (x for names in ratios.rounds(probed, probes) for x in names):
        if name in failures:
            continue
        result = run(name)
        if isinstance(result, Failure):
            failures[name] = result
            values.pop(name, None)
            report(f"failed: {result}")
        else:
            values[name] = max(result["value"], values.get(name, 0.0))
            report(f"probe: {name}: {result['value']:,.0f} {result['unit']}")
    # If all settings failed, the first one is selected and fails again.
    best = {max(each, key=lambda x: values.get(x, 0.0)) for each in groups.values()}
    rivals = tuple(name for name in row.rivals if name in best)
    return Probed(row._replace(rivals=rivals), values, failures)


def play(
    row: Row, pairs: int, run: Run, report: Callable[[str], None] = print
) -> Played:
    """Run the rounds of a row, one contender at a time.

    Args:
      row: row to measure.
      pairs: number of rounds.
      run: function that runs a contender once, in the round of a number from 1.
      report: called with texts about the progress.

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
            result = run(name, number)
            if isinstance(result, Failure):
                failures[name] = result
                report(f"failed: {result}")
                continue
            first = next((x[0] for x in results.values() if x), None)
            if first is None:
                report(f"work: {result['same']}")
            else:
                _same(name, first, result)
            if name not in results or not results[name]:
                report(f"{name}: {result['own']} {result['versions']}")
                for key, why in result.get("differs", {}).items():
                    report(f"{name}: {key} is {result['same'].get(key)}: {why}")
            results.setdefault(name, []).append(result)
            value, unit = result["value"], result["unit"]
            report(f"round {number} of {pairs}: {name}: {value:,.0f} {unit}")
    return Played(results, failures)


def lines(
    name: str,
    row: Row,
    played: Played,
    contenders: Mapping[str, Contender],
    fields: Mapping[str, Any] = {},
) -> list[Result]:
    """Return the lines to record: one for each rival, with its figures or a failure.

    Args:
      name: name of the row.
      row: measured row.
      played: its results.
      contenders: descriptions by name.
      fields: further fields of every line.
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
            **fields,
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
                "differs": _differs(row.subject, mine[0]) | _differs(rival, theirs[0]),
                **parity(mine, theirs, getattr(row.work, "compare_returns", True)),
            }
        )
    return found


def parity(
    mine: Sequence[Result], theirs: Sequence[Result], compare: bool = True
) -> Result:
    """Return the learned returns, compared; nothing for work without training.

    Args:
      mine, theirs: results, with ``returns`` if the work is training.
      compare: whether the returns are meaningful; else they are only recorded.

    Returns:
      ``subject_returns`` and ``rival_returns``. If every run has a return, also their
      means with 95 % intervals, ``subject_return`` and ``rival_return``, and
      ``parity``: whether these overlap (None for a single round, without intervals).
    """
    if not all("returns" in result for result in [*mine, *theirs]):
        return {}
    values = [[result["returns"] for result in each] for each in (mine, theirs)]
    found = {"subject_returns": values[0], "rival_returns": values[1], "parity": None}
    if not compare or None in values[0] or None in values[1]:
        return found
    means = [ratios.mean(each) for each in values]
    return found | {
        "subject_return": means[0]._asdict(),
        "rival_return": means[1]._asdict(),
        "parity": ratios.overlap(*means),
    }


def _same(name: str, first: Result, result: Result) -> None:
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
    declared = result.get("differs", {})
    differences = {
        k: {"is": result["same"].get(k), "why": v} for k, v in declared.items()
    }
    return {name: differences} if differences else {}


def _phases(results: Sequence[Result]) -> dict[str, float]:
    """Return the median seconds of each phase."""
    return {
        phase: round(ratios.median([x["phases"][phase] for x in results]).median, 4)
        for phase in results[0]["phases"]
    }
