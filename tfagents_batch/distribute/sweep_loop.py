"""Loop of a sweep: ask Optuna for values, train with them, tell it the results."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tfagents_batch.distribute import sweep_storage, trial_process
from tfagents_batch.distribute.sweep_search import SearchPlan
from tfagents_batch.errors import SaveError, UserError

LOG, OUTPUT = "*/metrics.jsonl", "output.txt"  # in the folder of a trial
REFUSED = 64  # exit status of a training whose flags are wrong
_REFUSALS = 3  # so many trials without another end the sweep
_POLL_SECONDS = 0.1
# Attributes of trials.
ERROR, FOLDER, STATUS = "error", "folder", "status"


class Attempt:
    """A trial of Optuna that is running, in a folder, on some cores or on all."""

    def __init__(
        self, trial: Any, folder: Path, plan: SearchPlan, cores: Sequence[int]
    ):
        self.trial, self._folder, self._plan = trial, folder, plan
        self._values: list[float] = []  # of the metric so far; finite
        self._position = 0  # in the log
        trial.set_user_attr(FOLDER, folder.name)
        flags = [*plan.flags(trial.params), "--progress=false", f"--logdir={folder}"]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._earlier = {*folder.glob(LOG)}
            self.process = trial_process.TrialProcess(flags, folder / OUTPUT, cores)
        except OSError as error:
            raise SaveError(
                f"a trial cannot be started in {folder}: {error.strerror}"
            ) from error

    def result(self) -> dict[str, Any] | None:
        """Return the arguments of ``Study.tell``; None while the trial is running."""
        from optuna.trial import TrialState

        status = self.process.poll()  # before the log is read to its end
        count, new = len(self._values), self._read()
        for step, value in enumerate(new, count):
            self.trial.report(value, step)
        if status is None:
            if not (new and self.trial.should_prune()):
                return None
            trial_process.stop([self.process])
            return {"state": TrialState.PRUNED}
        if status or not self._values:
            self.trial.set_user_attr(ERROR, self._error(status))
            self.trial.set_user_attr(STATUS, status)
            return {"state": TrialState.FAIL}
        return {"values": self._plan.value_of(self._values)}

    def _read(self) -> list[float]:
        """Return the values that were logged since the last call."""
        new: list[float] = []
        for path in {*self._folder.glob(LOG)} - self._earlier:  # one at most
            with contextlib.suppress(OSError), open(path, "rb") as file:
                file.seek(self._position)
                complete = file.read().rpartition(b"\n")
                self._position += len(complete[0] + complete[1])
                new = [x for line in complete[0].split(b"\n") for x in self._in(line)]
        self._values += new
        return new

    def _in(self, line: bytes) -> list[float]:
        with contextlib.suppress(ValueError, TypeError, LookupError):
            value = float(json.loads(line)[self._plan.metric])
            return [value] if math.isfinite(value) else []
        return []

    def _error(self, status: int) -> str:
        """Return why the training failed: its last line, or the signal."""
        if not status:
            return f"there is no {self._plan.metric} in its log"
        if status < 0:
            return f"killed by {signal.Signals(-status).name}"
        with contextlib.suppress(OSError):
            lines = (self._folder / OUTPUT).read_text(errors="replace").splitlines()
            for line in reversed(lines):
                if line.strip():
                    return line.strip().removeprefix("error: ")
        return f"exit status {status}"


def run(
    plan: SearchPlan,
    study: Any,
    folder: Path,
    trials: int,
    jobs: int = 1,
    report: Callable[[Any], None] = lambda trial: None,
) -> None:
    """Run trials until a number of them has ended, with those of earlier processes.

    When it ends, also by an exception, no process is left. ``jobs`` trials run at the
    same time, divide the cores and have a folder each; ``report`` gets each that ended.

    Raises:
      UserError: if the first trials were all refused because of their flags.
      SaveError: if a folder cannot be written.
    """
    free = trial_process.shares(jobs)
    running: dict[Attempt, list[int]] = {}  # with their cores
    ended = len(sweep_storage.counted(study))
    try:
        while running or ended < trials:
            while free and ended + len(running) < trials:
                trial, cores = study.ask(dict(plan.space)), free.pop(0)
                into = folder / f"trial-{trial.number:04}"
                running[Attempt(trial, into, plan, cores)] = cores
            time.sleep(_POLL_SECONDS)
            for attempt in [*running]:
                if (result := attempt.result()) is not None:
                    free.append(running.pop(attempt))
                    report(study.tell(attempt.trial, **result))
                    ended += 1
                    _check_refusals(study, ended)
    finally:
        trial_process.stop(attempt.process for attempt in running)


def _check_refusals(study: Any, ended: int) -> None:
    """Raise a UserError if the first trials were all refused."""
    if ended != _REFUSALS:
        return
    first = [trial.user_attrs for trial in sweep_storage.counted(study)]
    if all(attributes.get(STATUS) == REFUSED for attributes in first):
        raise UserError(
            f"the first {ended} trials were refused, the last one with: "
            f"{first[-1][ERROR]}; correct the flags and start in another --logdir"
        )
