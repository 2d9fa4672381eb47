"""Results files: JSON lines, one for each figure, only appended to."""

from __future__ import annotations

import datetime
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from benchmarks.work import machine

FOLDER = machine.ROOT / "benchmarks/results"


def context() -> dict[str, Any]:
    """Return the date, the commit and the machine of a run."""
    now = datetime.datetime.now(datetime.UTC)
    return {
        "date": now.isoformat(timespec="seconds"),
        "commit": machine.commit(),
        "machine": machine.describe(),
    }


def append(path: pathlib.Path, run: dict[str, Any], lines: list[dict]) -> None:
    """Append lines to a file, each with the context of their run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        file.writelines(json.dumps({**run, **line}) + "\n" for line in lines)


def read(path: pathlib.Path) -> list[dict[str, Any]]:
    """Return all lines of a file; none if it does not exist."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def origin(line: dict[str, Any], what: str) -> str:
    """Describe what was measured, where and when, in a sentence below a table."""
    host = line["machine"]
    return (
        f"{what}; {host['cores']} cores of {host['cpu']}, load {host['load']:.1f}, "
        f"commit {line['commit']}, {line['date'][:10]}."
    )


def newest(lines: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of every row's last run; rows are in order of their first."""
    dates = {line["row"]: line["date"] for line in lines}  # the last ones
    return {
        row: [x for x in lines if (x["row"], x["date"]) == (row, date)]
        for row, date in dates.items()
    }
