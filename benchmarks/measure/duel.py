"""Measure a row: contenders alternate, their work is compared, ratios are computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.contenders import Contender
from benchmarks.measure import process, ratios
from benchmarks.measure.command import show_result
from benchmarks.measure.process import Failure, Result, report
from benchmarks.measure.rows import Row
from tfagents_batch.config import unknown
from tfagents_batch.errors import UserError

PROBES = 2  # runs of each setting; the better one counts

Run = Callable[[str, int], Result | Failure]


class DifferentWork(Exception):
    """Two contenders did different work, so their figures cannot be compared."""


class Probed(NamedTuple):
    """Result of probing all settings of every peer.

    The row has the best setting of each peer. The subject stays; if another of its
    peer's settings is best, that one is a rival.
    """

    row: Row
    values: dict[str, float]  # of the probed contenders
    failures: dict[str, Failure]


def each(
    rows: Mapping[str, Any],
    contenders: Sequence[str],
    only: str,
    run: Callable[[str, Any], Result | Failure],
    play: Callable[[str, Any], bool],
) -> int:
    """Measure rows one after the other; a failed row does not affect the others.

    Args:
      rows: rows by name.
      contenders: names of the contenders of all rows.
      only: the only contender to run once, without a record; "" measures.
      run: function that runs a contender for a row.
      play: function that records a row and returns whether a contender failed.

    Returns:
      exit status: 1 if anything failed.

    Raises:
      KeyboardInterrupt: after the interrupted row was reported.
    """
    if only and only not in contenders:
        raise UserError(unknown("contender", only, contenders))
    failed = False
    for name, row in rows.items():
        try:
            if only:
                failed |= show_result(name, only, run(only, row))
            else:
                failed |= play(name, row)
        except DifferentWork as error:
            report(f"row {name} ends here, incomplete: {error}")
            failed = True
        except KeyboardInterrupt:
            report(f"row {name} ends here, incomplete; those before it are recorded")
            raise
    return int(failed)


def probe(
    row: Row,
    run: Callable[[str], Result | Failure],
    contenders: Mapping[str, Contender],
    probes: int = PROBES,
) -> Probed:
    """Run every setting of a peer, and select the best.

    The best of its runs counts, because other processes only slow a run down. A peer
    with one setting is not probed.

    Args:
      row: row of contenders; those with the same peer are settings of that peer.
      run: function that runs a contender for a short time.
      contenders: descriptions by name.
      probes: number of runs of each setting.
    """
    groups: dict[str, list[str]] = {}
    for name in (row.subject, *row.rivals):
        groups.setdefault(contenders[name].peer, []).append(name)
    probed = [x for names in groups.values() if len(names) > 1 for x in names]

    def shown(name: str, _: int) -> Result | Failure:
        result = run(name)
        if not isinstance(result, Failure):
            report(f"probe: {name}: {result['value']:,.0f} {result['unit']}")
        return result

    found = process.alternate(probed, probes, shown)
    values = {
        name: max(result["value"] for result in ran)
        for name, ran in found.results.items()
        if name not in found.failures
    }
    # If all settings failed, the first one is selected and fails again.
    best = {max(each, key=lambda x: values.get(x, 0.0)) for each in groups.values()}
    rivals = tuple(name for name in row.rivals if name in best)
    return Probed(row._replace(rivals=rivals), values, found.failures)


def play(row: Row, pairs: int, run: Run) -> process.Played:
    """Run the rounds of a row, and compare the work of its contenders.

    Args:
      row: row to measure.
      pairs: number of rounds.
      run: function that runs a contender once, in the round of a number from 1.

    Raises:
      DifferentWork: naming what differs.
    """
    seen: dict[str, Result] = {}

    def compared(name: str, number: int) -> Result | Failure:
        result = run(name, number)
        if isinstance(result, Failure):
            return result
        if not seen:
            report(f"work: {result['same']}")
        for first in [*seen.values()][:1]:
            _same(name, first, result)
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


def lines(
    name: str,
    row: Row,
    played: process.Played,
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
    for rival in row.rivals:
        line = {
            "row": name,
            "title": row.title,
            "subject": row.subject,
            "rival": rival,
            **{k: getattr(contenders[rival], k) for k in ("peer", "kind", "setting")},
            "goal": row.goal(contenders[rival]),
            "config": dataclasses.asdict(row.work),
            **fields,
        }
        failure = played.failures.get(row.subject, played.failures.get(rival))
        if failure is not None:
            found.append({**line, "failed": failure._asdict()})
            continue
        mine, theirs = played.results[row.subject], played.results[rival]
        values = [[result["value"] for result in each] for each in (mine, theirs)]
        line |= {
            "unit": mine[0]["unit"],
            "pairs": len(mine),
            "ratio": ratios.of_pairs(*values)._asdict(),
            "work": mine[0]["same"],
            "differs": _differs(row.subject, mine[0]) | _differs(rival, theirs[0]),
            **parity(mine, theirs, getattr(row.work, "compare_returns", True)),
        }
        for side, ran in (("subject", mine), ("rival", theirs)):
            figures = [result["value"] for result in ran]
            line[f"{side}_value"] = ratios.median(figures).median
            line[f"{side}_values"] = figures
            line[f"{side}_phases"] = _phases(ran)
            line[f"{side}_own"] = ran[0]["own"] | {"versions": ran[0]["versions"]}
        found.append(line)
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
    declared, same = result.get("differs", {}), result["same"]
    found = {key: {"is": same.get(key), "why": why} for key, why in declared.items()}
    return {name: found} if found else {}


def _phases(results: Sequence[Result]) -> dict[str, float]:
    """Return the median seconds of each phase."""
    return {
        phase: round(ratios.median([x["phases"][phase] for x in results]).median, 4)
        for phase in results[0]["phases"]
    }
