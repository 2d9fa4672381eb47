"""Does everything work here? ``python -m tfagents_batch.scripts.doctor``"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from tfagents_batch.scripts import app
from tfagents_batch.training import examine
from tfagents_batch.training.examine import FAILED, OK, WARNING, Finding

_MARKS = {OK: "ok", WARNING: "warning", FAILED: "FAILED"}


def main(argv: Sequence[str]) -> int:
    """Parse flags, run every check, print a row for each finding as it comes.

    Returns:
      Exit status: 0 if training works, warnings or not, else 65.
    """
    from tfagents_batch.config import option

    @dataclasses.dataclass(frozen=True)
    class Command:
        """Flags of this script."""

        json: bool = option(False, "print one JSON object instead of a table")
        seconds: float = option(
            300.0, "that each check may take; the engine is built in one", above=0
        )
        debug: bool = option(False, "show tracebacks")

    command = app.parse(argv, Command)
    if command is None:
        return 0
    found: dict[str, list[str]] = {OK: [], WARNING: [], FAILED: []}
    findings = []
    for name in examine.CHECKS:
        for each in check(name, command.seconds):
            findings.append(each._asdict())
            found[each.state].append(each.name)
            if not command.json:
                mark = _MARKS[each.state]
                print(f"{mark:8} {each.name:15} {each.text}", flush=True)
                if each.advice:
                    print(f"{'':24} {each.advice}", flush=True)
    failed, warned = ", ".join(found[FAILED]), ", ".join(found[WARNING])
    if command.json:
        print(json.dumps({"ok": not failed, "findings": findings}))
    elif failed:
        print(f"\ntraining does not work here: see {failed}")
    else:
        print("\nall is well" + (f", but see {warned}" if warned else ""))
    return app.EXIT_DATA if failed else 0


def check(name: str, seconds: float) -> list[Finding]:
    """Check one thing, in a process of its own.

    Args:
      name: a key of ``examine.CHECKS``.
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
            printed, complaint = process.communicate(timeout=seconds)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            advice = "see what keeps it; --seconds gives it longer"
            text = f"took longer than {seconds:g} s"
            return [Finding(name, FAILED, text, advice)]
    with contextlib.suppress(ValueError, TypeError, IndexError):
        found = [Finding(**each) for each in json.loads(printed.splitlines()[-1])]
        if process.returncode == 0:  # else it crashed after it had printed
            return found
    lines = complaint.strip().splitlines() or [f"status {process.returncode}"]
    advice = f"for all of it: python -m {examine.__name__} '{name}'"
    return [Finding(name, FAILED, lines[-1], advice)]


if __name__ == "__main__":
    sys.exit(app.run(main, tensorflow=False))
