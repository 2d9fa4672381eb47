"""Loop of a sweep: ask Optuna for values, train with them, tell it the results."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tfagents_batch.distribute.sweep import process, storage
from tfagents_batch.distribute.sweep.plan import Plan
from tfagents_batch.distribute.sweep.process import Launch, Training
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
      folder: folder of its trainings.
      plan: plan of the sweep.
      launch: starts a process.
    """

    def __init__(self, trial: Any, folder: Path, plan: Plan, launch: Launch):
        self.trial, self._folder, self._plan = trial, folder, plan
        self._launch = launch
        self._values: list[float] = []  # of the trainings that have ended
        trial.set_user_attr(FOLDER, folder.name)
        self.training = self._start()

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
            process.stop([self.training.process])
            return {"state": TrialState.PRUNED}
        if status or not self.training.values:
            why = self.training.error()
            if not status:
                why = f"there is no {self._plan.metric} in its log"
            self.trial.set_user_attr(ERROR, why)
            self.trial.set_user_attr(STATUS, status)
            return {"state": TrialState.FAIL}
        self._values.append(self._plan.value_of(self.training.values))
        if len(self._values) == self._plan.seeds_per_trial:
            return {"values": statistics.fmean(self._values)}
        self.training = self._start()
        return None

    def _start(self) -> Training:
        seed = self._plan.seed + len(self._values)
        flags = [*self._plan.flags(self.trial.params, seed), "--progress=false"]
        return Training(self._folder, flags, self._plan.metric, self._launch)


def run(
    plan: Plan,
    study: Any,
    folder: Path,
    trials: int,
    launchers: Iterable[Launch],
    report: Callable[[Any], None] = lambda trial: None,
) -> None:
    """Run trials until a number of them has ended.

    When it ends, also by an exception, no process is left.

    Args:
      plan: plan of the sweep.
      study: study of ``storage.opened``.
      folder: folder of the sweep; each trial gets a folder in it.
      trials: number of trials in the end, with those of earlier processes.
      launchers: functions that start a process, one for each trial at the same time.
      report: called with each trial that has ended.

    Raises:
      UserError: if the first trials were all refused because of their flags.
      SaveError: if a folder cannot be written.
    """
    distributions = plan.distributions()
    free = [*launchers]
    running: dict[Attempt, Launch] = {}
    ended = len(storage.counted(study))
    try:
        while running or ended < trials:
            while free and ended + len(running) < trials:
                trial, launch = study.ask(distributions), free.pop(0)
                into = folder / f"trial-{trial.number:04}"
                running[Attempt(trial, into, plan, launch)] = launch
            time.sleep(_POLL_SECONDS)
            for attempt in [*running]:
                if (result := attempt.result()) is not None:
                    free.append(running.pop(attempt))
                    report(study.tell(attempt.trial, **result))
                    ended += 1
                    _check_refusals(study, ended)
    finally:
        process.stop(attempt.training.process for attempt in running)


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
