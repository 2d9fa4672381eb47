"""Tables of recorded results in Markdown: the newest run of every row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.measure import results

Line = dict[str, Any]
Cells = Iterable[str]


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

    return _table(columns, lines, row, origin)


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
        line = newest[0]
        what = f"{line['machine']['gpu']}, TensorFlow {line['tensorflow']}"
        return results.origin(line, what)

    columns = ["work", "setting", "figure", "compared", "start s"]
    return _table(columns, lines, row, origin)


# Tables by the names of the results files, in the order of docs/benchmarks.md.
WRITERS: dict[str, Callable[[Sequence[Line]], str]] = {
    "environments": comparisons,
    "training": comparisons,
    "gpu": gpu,
}


def _table(
    columns: Sequence[str],
    lines: Sequence[Line],
    row: Callable[[Line], Cells],
    origin: Callable[[str, list[Line]], str],
) -> str:
    """Return a table, and sentences below it about where it was measured.

    ``row`` returns the cells of a line. ``origin`` returns the sentence of a row's name
    and newest lines; equal sentences are printed once.
    """
    newest = results.newest(lines)
    cells = [columns, *(row(line) for each in newest.values() for line in each)]
    shown = [f"| {' | '.join(x)} |" for x in cells]
    shown.insert(1, "|---" * len(columns) + "|")
    origins = [origin(name, each) for name, each in newest.items()]
    return "\n".join([*shown, "", *dict.fromkeys(origins)])


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def _figure(value: float) -> str:
    """Format a number with three digits."""
    value = float(f"{value:.3g}")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def _interval(interval: Line, center: str) -> str:
    value, low, high = (interval[name] for name in (center, "low", "high"))
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
    return ours, against, theirs, _interval(line["ratio"], "median"), goal


def _returns(line: Line) -> Cells:
    """Return the cells of both mean returns, and whether they are at parity."""
    means = [line.get(f"{side}_return") for side in ("subject", "rival")]
    cells = [_interval(each, "mean") if each else "" for each in means]
    parity = {True: "yes", False: "no", None: ""}[line.get("parity")]
    return *cells, f"{parity}*" if line.get("differs") else parity


def _differences(newest: list[Line]) -> str:
    """Name what contenders do differently."""
    differing = {
        contender: ", ".join(keys)
        for line in newest
        for contender, keys in line.get("differs", {}).items()
    }
    other = "; ".join(f"{contender}: {keys}" for contender, keys in differing.items())
    return f" \\* does other work ({other})." if other else ""
