"""Does everything work here? ``python -m tfagents_batch.scripts.doctor``"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

from tfagents_batch.scripts import app
from tfagents_batch.training import examine
from tfagents_batch.training.examine import FAILED, OK, WARNING, Finding

_MARKS = {OK: "ok", WARNING: "warning", FAILED: "FAILED"}


def main(argv: Sequence[str]) -> int:
    """Parse flags, look at everything, print a row for each finding as it comes.

    Returns:
      Exit status: 0 if training works, warnings or not, else 65.
    """
    from tfagents_batch.config import option

    @dataclasses.dataclass(frozen=True)
    class Command:
        """Of this script."""

        json: bool = option(False, "print one JSON object instead of a table")
        seconds: float = option(
            300.0, "that each look may take; the engine is built in one", above=0
        )
        debug: bool = option(False, "show tracebacks")

    command = app.parse(argv, Command)
    if command is None:
        return 0
    found = []
    for each in examine_all(examine.LOOKS, command.seconds):
        found.append(each)
        if not command.json:
            print(row(each), flush=True)
    good = all(each.state != FAILED for each in found)
    if command.json:
        told = {"ok": good, "findings": [each._asdict() for each in found]}
        print(json.dumps(told))
    else:
        print(f"\n{summary(found)}")
    return 0 if good else app.EXIT_DATA


def examine_all(names: Sequence[str], seconds: float) -> Iterator[Finding]:
    """What each look finds, by ``look``."""
    for name in names:
        yield from look(name, seconds)


def look(name: str, seconds: float) -> list[Finding]:
    """Look at one thing, in a process of its own.

    Args:
      name: a key of ``examine.LOOKS``.
      seconds: after which the process and its children are ended.
    """
    command = [sys.executable, "-m", examine.__name__, name]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            told, complaint = process.communicate(timeout=seconds)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            advice = "see what keeps it; --seconds gives it longer"
            text = f"took longer than {seconds:g} s"
            return [Finding(name, FAILED, text, advice)]
    try:
        found = [Finding(**each) for each in json.loads(told.splitlines()[-1])]
        if process.returncode == 0:
            return found
        raise ValueError  # it crashed after it had said so
    except (ValueError, TypeError, IndexError):
        lines = complaint.strip().splitlines() or [f"status {process.returncode}"]
        advice = f"for all of it: python -m {examine.__name__} '{name}'"
        return [Finding(name, FAILED, lines[-1], advice)]


def row(finding: Finding) -> str:
    """A line of the table, and one more if there is something to do."""
    line = f"{_MARKS[finding.state]:8} {finding.name:15} {finding.text}"
    return f"{line}\n{'':24} {finding.advice}" if finding.advice else line


def summary(findings: Sequence[Finding]) -> str:
    """What it comes to."""
    failed = [each.name for each in findings if each.state == FAILED]
    warned = [each.name for each in findings if each.state == WARNING]
    if failed:
        return f"training does not work here: see {', '.join(failed)}"
    return "all is well" + (f", but see {', '.join(warned)}" if warned else "")


if __name__ == "__main__":
    sys.exit(app.run(main, tensorflow=False))
