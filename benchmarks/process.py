"""Runs a contender in a fresh process that has a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

from benchmarks.machine import ROOT

_TAIL_LINES = 30
# Where make_environments puts interpreters that are not this one.
FOLDERS = {"peers": ".venv", "tf_agents": ".venv_tf_agents"}


class Failure(NamedTuple):
    """A contender without a result.

    Attributes:
      contender: its name.
      reason: what happened.
      stderr: the last lines of it.
    """

    contender: str
    reason: str
    stderr: str

    def __str__(self) -> str:
        return f"{self.contender} {self.reason}; its stderr ends:\n{self.stderr}"


def run(
    name: str,
    work: dict[str, Any],
    deadline: float,
    python: str = sys.executable,
    package: str = "benchmarks.contenders",
) -> dict[str, Any] | Failure:
    """Run one contender.

    Args:
      name: of its file.
      work: that it does.
      deadline: seconds until it is ended, with all the processes it started.
      python: interpreter.
      package: of the file.
    """
    command = [python, "-m", f"{package}.{name}", f"--work={json.dumps(work)}"]
    # Files, because a pipe stays open as long as any process of the contender lives.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(deadline)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if status is None:
            return Failure(name, f"did not end within {deadline:.0f} s", _tail(err))
        if status != 0:
            return Failure(name, f"ended with status {status}", _tail(err))
        out.seek(0)
        try:
            (line,) = out.read().splitlines()
            return json.loads(line)
        except ValueError:
            return Failure(name, "printed no single line of JSON", _tail(err))


def peer_python(wanted: str = "") -> str:
    """The peers' interpreter: as wanted, else as installed here, else this one."""
    return python_of("peers", wanted) or sys.executable


def python_of(interpreter: str, wanted: str = "") -> str | None:
    """Path of an interpreter; None if it is neither wanted nor installed here.

    Args:
      interpreter: as a ``Contender`` names it.
      wanted: path of it; "" for the installed one.
    """
    if interpreter == "ours":
        return sys.executable
    if wanted:
        return str(pathlib.Path(wanted).expanduser().absolute())
    installed = ROOT / "benchmarks" / FOLDERS[interpreter] / "bin/python"
    return str(installed) if installed.exists() else None


def _tail(file: Any) -> str:
    """The last lines, without the folders of this machine: results are published."""
    file.seek(0)
    text = "\n".join(file.read().splitlines()[-_TAIL_LINES:])
    return re.sub(r'(File ")/[^"]*/([^"/]*/[^"/]*")', r"\1.../\2", text)
