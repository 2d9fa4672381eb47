"""Trainings as processes of this machine, each with its share of the cores."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfagents_batch.distribute.sweep.process import Launch
from tfagents_batch.envs.shared import cpus

_START = """
import sys
if sys.path[0] == "":  # as the installed command: the working folder comes last
    sys.path.append(sys.path.pop(0))
from tfagents_batch.distribute.sweep import child
child.main()
"""
# Its arguments are the number of the process that it ends with, "train" and flags.
PROGRAM = (sys.executable, "-c", _START)


class LocalProcess:
    """A process in a session of its own, so that Ctrl-C does not reach it.

    Args:
      flags: flags of the training.
      output: file for what the process prints.
      cores: cores that it may use; empty for all.
      program: command line in front of the number of this process.
    """

    def __init__(
        self,
        flags: Sequence[str],
        output: Path,
        cores: Sequence[int] = (),
        program: Sequence[str] = PROGRAM,
    ):
        command = [*program, str(os.getpid()), "train", *flags]
        with open(output, "ab") as file:
            streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
            self._process = subprocess.Popen(command, **streams, start_new_session=True)
        if cores and hasattr(os, "sched_setaffinity"):
            with contextlib.suppress(OSError):  # it has ended already
                os.sched_setaffinity(self._process.pid, cores)

    def poll(self) -> int | None:
        return self._process.poll()

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def launchers(jobs: int, program: Sequence[str] = PROGRAM) -> Iterator[Launch]:
    """Yield a function for each job that starts a training with its cores."""
    found = cpus.available()
    for job in range(jobs):
        cores = found[job::jobs] if jobs <= len(found) else [found[job % len(found)]]

        def launch(flags, output, cores=cores if jobs > 1 else ()):
            return LocalProcess(flags, output, cores, program)

        yield launch
