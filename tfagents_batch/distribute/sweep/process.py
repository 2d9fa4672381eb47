"""One training of a trial: its process, and the values that it logs."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tfagents_batch.errors import SaveError

LOG = "metrics.jsonl"
OUTPUT = "output.txt"
GRACE_SECONDS = 5.0  # from SIGTERM to SIGKILL
_POLL_SECONDS = 0.05


# Starts a command, whose output is appended to a file. Returns a process with ``poll``,
# ``terminate`` and ``kill`` as of ``subprocess.Popen``; the last one ends all.
Launch = Callable[[Sequence[str], Path], Any]


class Training:
    """A training of a trial, and the values that it logs.

    Args:
      folder: folder of the trial; the training gets it as ``--logdir``.
      flags: flags of the training.
      metric: name of the metric to read.
      launch: starts a process.

    Attributes:
      process: its process.
      values: values of the metric so far, in the order of the log; finite.

    Raises:
      SaveError: if the folder cannot be written.
    """

    def __init__(self, folder: Path, flags: Sequence[str], metric: str, launch: Launch):
        self.values: list[float] = []
        self._folder, self._metric = folder, metric
        self._read = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._earlier = {*folder.glob(f"*/{LOG}")}
            self.process = launch([*flags, f"--logdir={folder}"], folder / OUTPUT)
        except OSError as error:
            raise SaveError(
                f"a trial cannot be started in {folder}: {error.strerror}"
            ) from error

    @property
    def status(self) -> int | None:
        """Exit status; None while it runs, minus the signal if one killed it."""
        return self.process.poll()

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


def stop(processes: Iterable[Any]) -> None:
    """Stop processes: they get a few seconds to save, then they are killed."""
    running = [*processes]
    try:
        for process in running:
            process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        while any(each.poll() is None for each in running):
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
    finally:  # also at the second Ctrl-C
        for process in running:
            process.kill()
