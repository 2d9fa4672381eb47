"""Run contenders in turn, each in a new process with a time limit."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.contenders import CONTENDERS
from benchmarks.work.machine import ROOT

_TAIL_LINES = 30
# Folders in which make_environments creates other interpreters.
_OTHERS = ("tf_agents", "batch_ppo", "sample_factory", "rllib", "obp")
FOLDERS = {"peers": ".venv", **{name: f".venv_{name}" for name in _OTHERS}}

Result = dict[str, Any]


class Failure(NamedTuple):
    """Failure of a contender."""

    contender: str
    reason: str
    stderr: str  # its last lines

    def __str__(self) -> str:
        return f"{self.contender} {self.reason}; its stderr ends:\n{self.stderr}"


class Played(NamedTuple):
    """Results of rounds: one result per round, or a failure, by name."""

    results: dict[str, list[Result]]
    failures: dict[str, Failure]

    def figures(self, key: str) -> dict[str, list[float]]:
        """Return one figure of all results, by name."""
        return {
            name: [each[key] for each in rounds]
            for name, rounds in self.results.items()
        }


def alternate(
    names: Sequence[str],
    count: int,
    run: Callable[[str, int], Result | Failure],
    needed: str | None = None,
) -> Played:
    """Run rounds A B, B A, A B, ..., so that no contender gains from a drift.

    ``run`` runs a contender in the round of a number from 1. One that failed does not
    run again; if ``needed`` failed, nothing else runs.
    """
    played = Played({name: [] for name in names}, {})
    for number in range(1, count + 1):
        for name in names if number % 2 else names[::-1]:
            if {name, needed} & {*played.failures}:
                continue
            result = run(name, number)
            if isinstance(result, Failure):
                played.failures[name] = result
                report(f"failed: {result}")
            else:
                played.results[name].append(result)
    return played


def run_contender(
    name: str, work: Any, deadline: float, pythons: Mapping[str, str] = {}
) -> Result | Failure:
    """Run one of ``CONTENDERS``, in its interpreter and with its options."""
    contender = CONTENDERS[name]
    python = python_of(contender.interpreter, pythons)
    if python is None:
        why = f"has no interpreter {contender.interpreter}; see --pythons"
        return Failure(name, why, "(benchmarks.make_environments creates it)")
    module = f"benchmarks.contenders.{contender.module}"
    result = run(module, work, deadline, python, contender.options)
    return result._replace(contender=name) if isinstance(result, Failure) else result


def run(
    module: str,
    work: Any,
    deadline: float,
    python: str = sys.executable,
    options: Mapping[str, Any] = {},
) -> Result | Failure:
    """Run a module, see ``started``; ``deadline`` is its limit in seconds."""
    with started(module, work, python, options) as result:
        return result(deadline)


@contextlib.contextmanager
def started(
    module: str,
    work: Any,
    python: str = sys.executable,
    options: Mapping[str, Any] = {},
) -> Iterator[Callable[[float], Result | Failure]]:
    """Start a module that prints a result; all its processes end with the context.

    Yields a function that waits for the result, up to seconds after the start.
    """
    name = module.rpartition(".")[2]
    command = [python, "-m", module, *arguments(work, options)]
    start = time.monotonic()
    # Files, because a pipe stays open as long as any process of the contender lives.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=ROOT,
            env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ},
            start_new_session=True,
        )

        def end() -> None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

        def result(deadline: float) -> Result | Failure:
            try:
                rest = start + deadline - time.monotonic()
                status: int | None = process.wait(max(0.0, rest))
            except subprocess.TimeoutExpired:
                status = None
            end()
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

        try:
            yield result
        finally:
            if process.returncode is None:
                end()


def arguments(work: Any, options: Mapping[str, Any] = {}) -> list[str]:
    """Return the arguments of a process, which ``session.flags`` reads."""
    kind = type(work).__module__, type(work).__name__
    fields = {"kind": kind, **dataclasses.asdict(work)}
    given = [f"--work={json.dumps(fields)}"]
    return [*given, f"--options={json.dumps(dict(options))}"] if options else given


def python_of(interpreter: str, wanted: Mapping[str, str] = {}) -> str | None:
    """Return the path of an interpreter: the chosen one, else the installed one.

    Without either, peers use this interpreter, because they may be installed here.
    The others cannot be, so they get None.
    """
    if interpreter == "ours":
        return sys.executable
    if path := wanted.get(interpreter):
        return str(pathlib.Path(path).expanduser().absolute())
    installed = ROOT / "benchmarks" / FOLDERS[interpreter] / "bin/python"
    if installed.exists():
        return str(installed)
    return sys.executable if interpreter == "peers" else None


def report(text: str) -> None:
    """Print a line of progress on stderr; stdout has the table."""
    print(text, file=sys.stderr, flush=True)


def _tail(file: Any) -> str:
    """Return the last lines without folders of this machine, for publication."""
    file.seek(0)
    text = "\n".join(file.read().splitlines()[-_TAIL_LINES:])
    return re.sub(r'(File ")/[^"]*/([^"/]*/[^"/]*")', r"\1.../\2", text)
