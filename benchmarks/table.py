"""Tables of the newest results in Markdown: ``python -m benchmarks.table``."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import endurance, scaling, startup
from benchmarks.measure import command, results, tables_learning
from tfagents_batch.config import option
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import app

Line = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Command:
    """Flags of this script."""

    folder: str = option(str(results.FOLDER), "folder of the results files")
    all: bool = option(False, "show every setting of a peer, not only its best")
    page: str = option("", "page to write the tables into, such as docs/benchmarks.md")


def main(argv: Sequence[str]) -> int:
    """Print a table for each kind of results."""
    flags = app.parse(argv, Command)
    if flags is None:
        return 0
    folder = pathlib.Path(flags.folder)
    writers = {
        "environments": lambda lines: markdown(lines, flags.all),
        "training": training,
        "replay": costs,
        "workers": costs,
        "learning": tables_learning.markdown,
        "startup": startup.markdown,
        "scaling": scaling.markdown,
        "endurance": endurance.markdown,
    }
    tables = {
        name: write(results.read(folder / f"{name}.jsonl"))
        for name, write in writers.items()
    }
    if flags.page:
        page = pathlib.Path(flags.page)
        page.write_text(written(page.read_text(), tables))
    else:
        print("\n\n".join(tables.values()))
    return 0


def written(page: str, tables: Mapping[str, str]) -> str:
    """Return the text of a page with new tables between their marks.

    Args:
      page: its text, with ``<!-- table: name -->`` and ``<!-- end -->`` for each table.
      tables: tables by name.

    Raises:
      UserError: if the marks of a table are missing.
    """
    for name, text in tables.items():
        mark, end = f"<!-- table: {name} -->", "<!-- end -->"
        pattern = re.compile(f"{re.escape(mark)}.*?{end}", re.DOTALL)
        if not pattern.search(page):
            raise UserError(f"the page has no {mark} followed by {end}; add both")
        new = f"{mark}\n\n{text}\n\n{end}"
        page = pattern.sub(lambda _, new=new: new, page, count=1)
    return page


def markdown(lines: Sequence[Line], everything: bool = False) -> str:
    """Return a table of comparisons, with the newest run of every row.

    It shows each peer's best setting, the best setting of each kind that has a goal,
    and all failures.

    Args:
      lines: lines of a results file.
      everything: show all settings.
    """
    rows = ["| work | ours | against | theirs | ratio (95 %) | goal |"]
    rows.append("|---|---|---|---|---|---|")
    origins = []
    for name, found in results.newest(lines).items():
        for line in found if everything else best(found):
            rows.append(_row(line))
        origins.append(_origin(f"`{name}`", found))
    return "\n".join([*rows, "", *dict.fromkeys(origins)])


def best(lines: Sequence[Line]) -> list[Line]:
    """Return each peer's best setting, the best of a kind with a goal, and failures."""
    ran = [line for line in lines if "failed" not in line]
    chosen = []
    for line in ran:
        groups = [[x for x in ran if x["peer"] == line["peer"]]]
        if line["goal"] is not None:
            groups.append([x for x in ran if x["kind"] == line["kind"]])
        if any(line is max(group, key=_theirs) for group in groups):
            chosen.append(line)
    return [line for line in lines if line in chosen or "failed" in line]


def training(lines: Sequence[Line]) -> str:
    """Return a table of training speed, with the newest run of every row.

    It also shows the mean returns of the timed runs, over the last fifth of their
    episodes.

    Args:
      lines: lines of a results file.
    """
    rows = [
        "| work | ours | against | theirs | ratio (95 %) | goal | return, ours "
        "| return, theirs | at parity |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    origins = []
    for name, found in results.newest(lines).items():
        rows += [_trained(line) for line in found]
        origins.append(_run_of(f"`{name}`", found))
    return "\n".join([*rows, "", *dict.fromkeys(origins)])


def costs(lines: Sequence[Line]) -> str:
    """Return a table of single figures and goals, with the newest run of every row."""
    rows = ["| | median | range | goal |", "|---|---|---|---|"]
    origins = []
    for found in results.newest(lines).values():
        for line in found:
            low, high = min(line["values"]), max(line["values"])
            goal = "" if line["goal"] is None else f"at most {line['goal']:g}"
            unit = line["unit"]
            rows.append(
                f"| {line['title']} | {_figure(line['value'])} {unit} "
                f"| {_figure(low)} to {_figure(high)} | {goal} |"
            )
        repeats = f"{len(found[0]['values'])} processes each"
        origins.append(results.origin(found[0], repeats))
    return "\n".join([*rows, "", *dict.fromkeys(origins)])


def _theirs(line: Line) -> float:
    return line["rival_value"]


def _row(line: Line) -> str:
    against = ", ".join(x for x in (line["peer"], line["kind"], line["setting"]) if x)
    goal = "" if line["goal"] is None else f"{line['goal']:g}"
    if "failed" in line:
        reason = f"{line['failed']['contender']} {line['failed']['reason']}"
        return f"| {line['title']} | | {against} | failed: {reason} | | {goal} |"
    ratio = line["ratio"]
    return (
        f"| {line['title']} | {_figure(line['subject_value'])} | {against} "
        f"| {_figure(line['rival_value'])} | {_figure(ratio['median'])} "
        f"({_figure(ratio['low'])} to {_figure(ratio['high'])}) | {goal} |"
    )


def _trained(line: Line) -> str:
    ours = ", ".join(x for x in (line["title"], line["subject_setting"]) if x)
    row = _row({**line, "title": ours})
    if "failed" in line:
        return f"{row} | | |"
    parity = {True: "yes", False: "no", None: ""}[line.get("parity")]
    means = [_mean(line.get(f"{side}_return")) for side in ("subject", "rival")]
    mark = "*" if line.get("differs") else ""
    return f"{row} {means[0]} | {means[1]} | {parity}{mark} |"


def _mean(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    if found["low"] is None:
        return _figure(found["mean"])
    bounds = f"{_figure(found['low'])} to {_figure(found['high'])}"
    return f"{_figure(found['mean'])} ({bounds})"


def _run_of(name: str, found: Sequence[Line]) -> str:
    """Describe where a row was measured, and what its peers do differently."""
    ran = [line for line in found if "failed" not in line]
    if not ran:
        return f"{name}: nothing ran."
    first = ran[0]
    what = (
        f"{first['unit']}, {first['pairs']} pairs of {first['config']['steps']:,} "
        f"env steps and {first['config']['seconds']:g} s at least, ours with "
        f"{first['subject_own']['workers']} workers"
    )
    differing = {
        contender: ", ".join(keys)
        for line in ran
        for contender, keys in line.get("differs", {}).items()
    }
    other = [f"{contender}: {keys}" for contender, keys in differing.items()]
    note = f" \\* does other work ({'; '.join(other)})." if other else ""
    return f"{name}: {results.origin(first, what)}{note}"


def _origin(name: str, found: Sequence[Line]) -> str:
    ran = [line for line in found if "failed" not in line]
    if not ran:
        return f"{name}: nothing ran."
    config = ran[0]["config"]
    what = (
        f"{ran[0]['unit']}, {ran[0]['pairs']} pairs of {config['seconds']:g} s, "
        f"ours in {ran[0]['subject_own']['workers']} workers"
    )
    return f"{name}: {results.origin(ran[0], what)}"


def _figure(value: float) -> str:
    """Format a number with three digits."""
    if value <= -1000:
        return f"-{_figure(-value)}"
    if value >= 1000:
        digits = 10 ** (len(str(int(value))) - 3)
        return f"{round(value / digits) * digits:,}"
    return f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(command.run(main))
