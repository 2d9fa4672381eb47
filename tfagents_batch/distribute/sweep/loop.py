"""Loop of a sweep: ask Optuna for values, train with them, tell it the results."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tfagents_batch.distribute.sweep import process, storage
from tfagents_batch.distribute.sweep.plan import Plan
from tfagents_batch.distribute.sweep.process import PROGRAM, Training
from tfagents_batch.envs.shared import cpus
from tfagents_batch.errors import UserError

REFUSED = 64  # exit status of a training whose flags are wrong
_REFUSALS = 3  # so many trials without another end the sweep
_POLL_SECONDS = 0.1
# Attributes of trials.
ERROR, FOLDER, STATUS = "error", "folder", "status"


class Attempt:
    """A trial that is running: one training after another, one for each seed.

    Args:
      trial: trial of Optuna.
      plan: plan of the sweep.
      start: starts a training from its folder and its seed.
    """

    def __init__(self, trial: Any, folder: Path, plan: Plan, start: Callable):
        self.trial, self.folder, self._plan = trial, folder, plan
        self._start = start
        self._values: list[float] = []
        trial.set_user_attr(FOLDER, folder.name)
        self.training: Training = start(self.folder, trial.params, plan.seed)

    def result(self) -> dict[str, Any] | None:
        """Return the arguments of ``Study.tell``; None while the trial is running."""
        from optuna.trial import TrialState

        status = self.training.status  # before the log is read to its end
        first = not self._values
        count = len(self.training.values)
        new = self.training.read()
        for step, value in enumerate(new if first else (), count):
            self.trial.report(value, step)
        if status is None:
            if not (first and new and self.trial.should_prune()):
                return None
            process.stop([self.training])
            return {"state": TrialState.PRUNED}
        if status or not self.training.values:
            why = self.training.error()
            if not status:
                why = f"there is no {self._plan.metric} in its log"
            self.trial.set_user_attr(ERROR, why)
            self.trial.set_user_attr(STATUS, status)
            return {"state": TrialState.FAIL}
        self._values.append(self._plan.value_of(self.training.values))
        if (done := len(self._values)) == self._plan.seeds_per_trial:
            return {"values": statistics.fmean(self._values)}
        seed = self._plan.seed + done
        self.training = self._start(self.folder, self.trial.params, seed)
        return None


def run(
    plan: Plan,
    study: Any,
    folder: Path,
    trials: int,
    jobs: int = 1,
    report: Callable[[Any], None] = lambda trial: None,
    program: Sequence[str] = PROGRAM,
) -> None:
    """Run trials until a number of them has ended.

    When it ends, also by an exception, no process is left.

    Args:
      plan: plan of the sweep.
      study: study of ``storage.opened``.
      folder: folder of the sweep; each trial gets a folder in it.
      trials: number of trials in the end, with those of earlier processes.
      jobs: number of trials at the same time; they divide the cores.
      report: called with each trial that has ended.
      program: command line of a training, see ``process.Training``.

    Raises:
      UserError: if the first trials were all refused because of their flags.
      SaveError: if a folder cannot be written.
    """
    distributions = plan.distributions()
    free = [*_cores(jobs)]
    running: dict[Attempt, tuple[int, ...]] = {}
    ended = len(storage.counted(study))
    try:
        while running or ended < trials:
            while free and ended + len(running) < trials:
                cores = free.pop(0)
                trial = study.ask(distributions)

                def start(folder, values, seed, cores=cores):
                    flags = [*plan.flags(values, seed), "--progress=false"]
                    return Training(folder, flags, plan.metric, cores, program)

                into = folder / f"trial-{trial.number:04}"
                running[Attempt(trial, into, plan, start)] = cores
            time.sleep(_POLL_SECONDS)
            for attempt in [*running]:
                if (result := attempt.result()) is not None:
                    free.append(running.pop(attempt))
                    report(study.tell(attempt.trial, **result))
                    ended += 1
                    _check_refusals(study, ended)
    finally:
        process.stop(attempt.training for attempt in running)


def _cores(jobs: int) -> Iterator[tuple[int, ...]]:
    """Yield the cores of each job; none stand for all of them."""
    cores = cpus.available()
    for job in range(jobs):
        if jobs == 1:
            yield ()
        elif jobs <= len(cores):
            yield tuple(cores[job::jobs])
        else:
            yield (cores[job % len(cores)],)


def _check_refusals(study: Any, ended: int) -> None:
    """Raise a UserError if the first trials were all refused."""
    if ended != _REFUSALS:
        return
    first = [trial.user_attrs for trial in storage.counted(study)]
    if all(each.get(STATUS) == REFUSED for each in first):
        raise UserError(
            f"the first {ended} trials were refused, the last one with: "
            f"{first[-1][ERROR]}; correct the flags and start in another --logdir"
        )
