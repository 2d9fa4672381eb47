"""Trainings as processes of this machine, each with its share of the cores."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tfagents_batch.envs.shared import cpus

_START = """
import sys
if sys.path[0] == "":  # as the installed command: the working folder comes last
    sys.path.append(sys.path.pop(0))
from tfagents_batch.distribute import trial_process
trial_process.main()
"""
# Its arguments are the number of the process that it ends with, "train" and flags.
PROGRAM = (sys.executable, "-c", _START)
GRACE_SECONDS = 5.0  # from SIGTERM to SIGKILL
_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1


class TrialProcess:
    """A process in a session of its own, so that Ctrl-C does not reach it.

    What it prints goes to ``output``. It may use these cores; none means all.
    """

    def __init__(self, flags: Sequence[str], output: Path, cores: Sequence[int]):
        command = [*PROGRAM, str(os.getpid()), "train", *flags]
        with open(output, "ab") as file:
            streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
            self._process = subprocess.Popen(command, **streams, start_new_session=True)
        if cores and hasattr(os, "sched_setaffinity"):
            with contextlib.suppress(OSError):  # it has ended already
                os.sched_setaffinity(self._process.pid, cores)
        self.poll, self.terminate = self._process.poll, self._process.terminate

    def kill(self) -> None:
        """End it, and what it has started."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def shares(jobs: int) -> list[list[int]]:
    """Return the cores of each of several jobs; one job has no limit."""
    cores = cpus.available()
    if jobs == 1:
        return [[]]
    if jobs > len(cores):
        return [[cores[job % len(cores)]] for job in range(jobs)]
    return [cores[job::jobs] for job in range(jobs)]


def stop(processes: Iterable[TrialProcess]) -> None:
    """Stop processes: they get a few seconds to save, then they are killed."""
    running = [*processes]
    try:
        for process in running:
            process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        while any(process.poll() is None for process in running):
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
    finally:  # also at the second Ctrl-C
        for process in running:
            process.kill()


def end_with(parent: int) -> None:
    """Let the system kill this process when its parent ends; Linux only."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call above
        os._exit(1)


def main() -> None:
    """Run a command of the package, and end with its sweep, even if that is killed.

    The first argument is the process of the sweep.
    """
    end_with(int(sys.argv.pop(1)))
    from tfagents_batch import __main__ as commands

    commands.main()
