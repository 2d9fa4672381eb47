"""Tables of recorded results in Markdown: the newest run of every row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.measure import ratios, results

Line = dict[str, Any]
Cells = Iterable[str]

PHASES = ("import", "construction", "first_iteration", "training")


def comparisons(lines: Sequence[Line]) -> str:
    """Return the ratios of speeds, and the mean returns of the timed runs if any."""
    trained = any("subject_returns" in line for line in lines)
    columns = ["work", "ours", "against", "theirs", "ratio (95 %)", "goal"]
    if trained:
        columns += ["return, ours", "return, theirs", "at parity"]

    def row(line: Line) -> Cells:
        own = line.get("subject_setting") if trained else ""
        cells = [_joined(line["title"], own), *_ratio(line)]
        return [*cells, *_returns(line)] if trained else cells

    def origin(name: str, newest: list[Line]) -> str:
        ran = [line for line in newest if "failed" not in line]
        if not ran:
            return f"`{name}`: nothing ran."
        line, config = ran[0], ran[0]["config"]
        steps = f"{config['steps']:,} env steps and " if "steps" in config else ""
        what = (
            f"`{name}`: {line['unit']}, {line['pairs']} pairs of {steps}"
            f"{config['seconds']:g} s at least, ours with "
            f"{line['subject_own']['workers']} workers"
        )
        return results.origin(line, what) + _differences(newest)

    return _table(columns, lines, lambda newest: map(row, newest), origin)


def learning(lines: Sequence[Line]) -> str:
    """Return times to a threshold, with a row for each side."""

    def rows(newest: list[Line]) -> Iterable[Cells]:
        head, (ours, theirs) = newest[0], _sides(newest)
        sooner, goal = "", f"within {head['goal']} s"
        if theirs:
            sooner, goal = _sooner(ours, theirs), f"{head['goal']:g}"
        title = f"{head['title']}, {head['cache']} cache"
        yield title, "ours", *_times(ours), sooner, goal
        if theirs:
            yield "", "Stable-Baselines3", *_times(theirs), "", ""

    def origin(name: str, newest: list[Line]) -> str:
        """Describe where a row was measured, and the median seconds of each phase."""
        parts = []
        for side, runs in zip(("ours", "theirs"), _sides(newest), strict=True):
            if ran := [line for line in runs if "failed" not in line]:
                own = ran[0]["own"]
                phases = {x: np.median([y["phases"][x] for y in ran]) for x in PHASES}
                medians = [f"{x.replace('_', ' ')} {phases[x]:.1f}" for x in PHASES]
                if "threads" in own:
                    setting = f"{own['vectorisation']}, {own['threads']} threads"
                else:
                    workers = own["workers"]
                    setting = f"{workers} workers" if workers else "in the graph"
                parts.append(f"{side} ({setting}) {', '.join(medians)} s")
        return results.origin(newest[0], f"`{name}`: {'; '.join(parts)}")

    columns = ["task", "", "reached", "median s (all)", "env steps"]
    return _table([*columns, "sooner (95 %)", "goal"], lines, rows, origin)


def gpu(lines: Sequence[Line]) -> str:
    """Return figures that need a GPU, each beside the one it is compared with."""

    def row(line: Line) -> Cells:
        cells = line["title"], line["setting"]
        if "failed" in line:
            return *cells, f"failed: {line['failed']['reason']}", "", ""
        if "skipped" in line:
            return *cells, f"skipped: {line['skipped']}", "", ""
        figure = f"{_figure(line['value'])} {line['unit']}"
        start = line["phases"]["construction"] + line["phases"]["warm_up"]
        return *cells, figure, _compared(line), f"{start:.1f}"

    def origin(_: str, newest: list[Line]) -> str:
        device = newest[0]["machine"]["gpu"]
        return results.origin(
            newest[0], f"{device}, TensorFlow {newest[0]['tensorflow']}"
        )

    columns = ["work", "setting", "figure", "compared", "start s"]
    return _table(columns, lines, lambda newest: map(row, newest), origin)


# Tables by the names of the results files, in the order of docs/benchmarks.md.
WRITERS: dict[str, Callable[[Sequence[Line]], str]] = {
    "environments": comparisons,
    "training": comparisons,
    "learning": learning,
    "gpu": gpu,
}


def written(name: str, lines: Sequence[Line]) -> str:
    """Return the table of a results file; a sentence if it has no lines."""
    return WRITERS[name](lines) if lines else "No result is recorded yet."


def _table(
    columns: Sequence[str],
    lines: Sequence[Line],
    rows: Callable[[list[Line]], Iterable[Cells]],
    origin: Callable[[str, list[Line]], str],
) -> str:
    """Return a table, and sentences below it about where it was measured.

    Args:
      columns: titles of the columns.
      lines: lines of a results file.
      rows: function of a row's newest lines that returns the cells of its rows.
      origin: function of a row's name and newest lines that returns its sentence. Equal
        sentences are printed once.
    """
    newest = results.newest(lines)
    cells = [columns, *(x for row in newest.values() for x in rows(row))]
    shown = [f"| {' | '.join(x)} |" for x in cells]
    shown.insert(1, "|---" * len(columns) + "|")
    origins = [origin(name, row) for name, row in newest.items()]
    return "\n".join([*shown, "", *dict.fromkeys(origins)])


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _figure(value: float) -> str:
    """Format a number with three digits."""
    if value <= -1000:
        return f"-{_figure(-value)}"
    if value >= 1000:
        digits = 10 ** (len(str(int(value))) - 3)
        return f"{round(value / digits) * digits:,}"
    return f"{value:.3g}"


def _interval(value: float, low: float | None, high: float | None) -> str:
    if low is None:
        return _figure(value)
    return f"{_figure(value)} ({_figure(low)} to {_figure(high)})"


def _compared(line: Line) -> str:
    """Return a ratio to another setting; of microseconds, the difference."""
    if "reference" not in line:
        return ""
    value, reference, other = line["value"], line["reference"], line["against"]
    if line["unit"] == "µs":
        return f"{value - reference:+.1f} µs to {other}"
    return f"{_figure(value / reference)} times {other}"


def _ratio(line: Line) -> Cells:
    """Return the cells of our speed, the rival, its speed, their ratio and the goal."""
    against = _joined(line["peer"], line["kind"], line["setting"])
    goal = "" if line["goal"] is None else f"{line['goal']:g}"
    if "failed" in line:
        reason = f"{line['failed']['contender']} {line['failed']['reason']}"
        return "", against, f"failed: {reason}", "", goal
    ours, theirs = (_figure(line[f"{x}_value"]) for x in ("subject", "rival"))
    return ours, against, theirs, _interval(**_bounds(line["ratio"], "median")), goal


def _returns(line: Line) -> Cells:
    """Return the cells of both mean returns, and whether they are at parity."""
    means = [line.get(f"{side}_return") for side in ("subject", "rival")]
    cells = [_interval(**_bounds(x, "mean")) if x else "" for x in means]
    parity = {True: "yes", False: "no", None: ""}[line.get("parity")]
    return *cells, f"{parity}*" if line.get("differs") else parity


def _bounds(interval: Line, center: str) -> Line:
    return {"value": interval[center], "low": interval["low"], "high": interval["high"]}


def _differences(newest: list[Line]) -> str:
    """Name what contenders do differently."""
    differing = {
        contender: ", ".join(keys)
        for line in newest
        for contender, keys in line.get("differs", {}).items()
    }
    other = "; ".join(f"{contender}: {keys}" for contender, keys in differing.items())
    return f" \\* does other work ({other})." if other else ""


def _sides(lines: list[Line]) -> tuple[list[Line], list[Line]]:
    """Return the lines of our runs, and those of the peer's."""
    ours = [line for line in lines if line["contender"] == "learn_ours"]
    return ours, [line for line in lines if line not in ours]


def _times(lines: list[Line]) -> Cells:
    """Return the cells of one side: runs that reached it, seconds, env steps.

    Seconds of a run that did not reach the threshold are marked ``>``.
    """
    ran = [line for line in lines if "failed" not in line]
    if not ran:
        return f"failed: {lines[0]['failed']['reason']}", "", ""
    marked = [f"{'' if x['reached'] else '> '}{x['seconds']:.1f}" for x in ran]
    median = f"{np.median([x['seconds'] for x in ran]):.1f} ({', '.join(marked)})"
    reached = sum(x["reached"] for x in ran)
    if 2 * reached <= len(ran):
        median = f"at least {median}"
    steps = int(np.median([x["steps"] for x in ran]))
    return f"{reached} of {len(ran)}", median, f"{steps:,}"


def _sooner(ours: list[Line], theirs: list[Line]) -> str:
    """Return the ratio of both times, unless a run failed or took all of its steps."""
    if not all(x.get("reached") for x in [*ours, *theirs]) or len(ours) != len(theirs):
        return "unknown"
    times = ([x["seconds"] for x in lines] for lines in (ours, theirs))
    value, low, high = (f"{x:.3g}" for x in ratios.sooner(*times))
    return f"{value} ({low} to {high})"
