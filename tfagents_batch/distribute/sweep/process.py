"""One training of a trial: a process, and the values that it logs."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tfagents_batch.errors import SaveError

LOG = "metrics.jsonl"
OUTPUT = "output.txt"
GRACE_SECONDS = 5.0  # from SIGTERM to SIGKILL
_POLL_SECONDS = 0.05
_START = """
import sys
if sys.path[0] == "":  # as the installed command: the working folder comes last
    sys.path.append(sys.path.pop(0))
from tfagents_batch.distribute.sweep import child
child.main()
"""
# Its arguments are the number of this process, "train" and flags.
PROGRAM = (sys.executable, "-c", _START)


class Training:
    """A training as a process of its own, in a session of its own.

    Args:
      folder: folder of the trial; the process gets it as ``--logdir``.
      flags: flags of the training.
      metric: name of the metric to read.
      cores: cores that the process may use; empty for all.
      program: command line in front of the number of this process.

    Attributes:
      values: values of the metric so far, in the order of the log; finite.

    Raises:
      SaveError: if the folder cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        flags: Sequence[str],
        metric: str,
        cores: Iterable[int] = (),
        program: Sequence[str] = PROGRAM,
    ):
        self.values: list[float] = []
        self._folder, self._metric = folder, metric
        self._read = 0
        command = [*program, str(os.getpid()), "train", *flags, f"--logdir={folder}"]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._earlier = {*folder.glob(f"*/{LOG}")}
            with open(folder / OUTPUT, "ab") as output:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,  # Ctrl-C is for the sweep
                )
        except OSError as error:
            raise SaveError(
                f"a trial cannot be started in {folder}: {error.strerror}"
            ) from error
        cores = {*cores}
        if cores and hasattr(os, "sched_setaffinity"):
            with contextlib.suppress(OSError):  # it has ended already
                os.sched_setaffinity(self._process.pid, cores)

    @property
    def status(self) -> int | None:
        """Exit status; None while it runs, minus the signal if one killed it."""
        return self._process.poll()

    def read(self) -> list[float]:
        """Return the values that were logged since the last call."""
        logs = {*self._folder.glob(f"*/{LOG}")} - self._earlier
        new: list[float] = []
        for path in logs:  # one at most
            with contextlib.suppress(OSError), open(path, "rb") as file:
                file.seek(self._read)
                complete = file.read().rpartition(b"\n")
                self._read += len(complete[0] + complete[1])
                new = [x for line in complete[0].split(b"\n") for x in self._in(line)]
        self.values += new
        return new

    def error(self) -> str:
        """Return why the training failed: its last line, or the signal."""
        status = self.status or 0
        if status < 0:
            return f"killed by {signal.Signals(-status).name}"
        with contextlib.suppress(OSError):
            lines = (self._folder / OUTPUT).read_text(errors="replace").splitlines()
            for line in reversed(lines):
                if line.strip():
                    return line.strip().removeprefix("error: ")
        return f"exit status {status}"

    def _in(self, line: bytes) -> list[float]:
        with contextlib.suppress(ValueError, TypeError, LookupError):
            value = float(json.loads(line)[self._metric])
            return [value] if math.isfinite(value) else []
        return []


def stop(trainings: Iterable[Training]) -> None:
    """Stop trainings: they get a few seconds to save, then they are killed."""
    processes = [each._process for each in trainings]
    try:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while any(each.poll() is None for each in processes):
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
    finally:  # also at the second Ctrl-C
        for process in processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
