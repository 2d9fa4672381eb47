"""Run a contender in a new process with a time limit."""

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
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.contenders import CONTENDERS
from benchmarks.work.machine import ROOT

_TAIL_LINES = 30
# Folders in which make_environments creates other interpreters.
FOLDERS = {
    "peers": ".venv",
    "tf_agents": ".venv_tf_agents",
    "batch_ppo": ".venv_batch_ppo",
    "sample_factory": ".venv_sample_factory",
}


class Failure(NamedTuple):
    """Failure of a contender.

    Attributes:
      contender: name of the contender.
      reason: what happened.
      stderr: last lines of its stderr.
    """

    contender: str
    reason: str
    stderr: str

    def __str__(self) -> str:
        return f"{self.contender} {self.reason}; its stderr ends:\n{self.stderr}"


def run_contender(
    name: str,
    work: dict[str, Any],
    deadline: float,
    pythons: Mapping[str, str] = {},
) -> dict[str, Any] | Failure:
    """Run one of ``CONTENDERS``, in its interpreter and with its options.

    Args:
      name: name of the contender.
      work: its work.
      deadline: time limit in seconds.
      pythons: chosen paths by interpreter, see ``python_of``.
    """
    contender = CONTENDERS[name]
    python = python_of(contender.interpreter, pythons)
    if python is None:
        flag = f"--{contender.interpreter}_python"
        why = f"has no interpreter: pass {flag}, or create it first"
        return Failure(name, why, "(benchmarks.make_environments creates it)")
    result = run(contender.module, work, deadline, python, options=contender.options)
    if isinstance(result, Failure):
        return result._replace(contender=name)
    return result


def run(
    name: str,
    work: dict[str, Any],
    deadline: float,
    python: str = sys.executable,
    package: str = "benchmarks.contenders",
    options: Mapping[str, Any] = {},
) -> dict[str, Any] | Failure:
    """Run a module that prints a result.

    Args:
      name: name of the module.
      work: its work.
      deadline: time limit in seconds; all processes that it started end with it.
      python: interpreter.
      package: package of the module.
      options: options of its ``start``.
    """
    command = [python, "-m", f"{package}.{name}", f"--work={json.dumps(work)}"]
    if options:
        command.append(f"--options={json.dumps(dict(options))}")
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
            return Failure(name, "did not print one line of JSON", _tail(err))


def python_of(interpreter: str, wanted: Mapping[str, str] = {}) -> str | None:
    """Return the path of an interpreter: the chosen one, else the installed one.

    Without either, peers use this interpreter, because they may be installed here.
    TF-Agents and batch-ppo cannot be, so they get None.

    Args:
      interpreter: name in ``Contender``.
      wanted: chosen paths by interpreter; a missing one or "" uses the installed one.
    """
    if interpreter == "ours":
        return sys.executable
    if path := wanted.get(interpreter):
        return str(pathlib.Path(path).expanduser().absolute())
    installed = ROOT / "benchmarks" / FOLDERS[interpreter] / "bin/python"
    if installed.exists():
        return str(installed)
    return sys.executable if interpreter == "peers" else None


def _tail(file: Any) -> str:
    """Return the last lines without folders of this machine, for publication."""
    file.seek(0)
    text = "\n".join(file.read().splitlines()[-_TAIL_LINES:])
    return re.sub(r'(File ")/[^"]*/([^"/]*/[^"/]*")', r"\1.../\2", text)
