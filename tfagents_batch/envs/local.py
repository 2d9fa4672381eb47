"""Environments in the learner's own process, behind the same commands as workers.

For debugging, for environments that are cheap or come as a batch, and for platforms
without worker processes. There are no deadlines: nothing could end a call that hangs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tfagents_batch.envs import layout, protocol, stepper
from tfagents_batch.envs.outcome import Context, Fault, Outcome
from tfagents_batch.envs.restart_budget import RestartBudget
from tfagents_batch.envs.vector import batch_stepper
from tfagents_batch.envs.vector.batch_stepper import BatchStepper, Steppable

# Ctrl-C is the user's here, so KeyboardInterrupt is not an environment's failure.
_CATCH = (Exception, SystemExit)


class LocalExecutor:
    """The in-process counterpart of ``ProcessExecutor``: one stepper.

    Args:
      environments: constructors, or a batch that exists already.
      budget: grants restarts; None if what fails is not replaced.
    """

    workers = ()

    def __init__(
        self,
        environments: Sequence[Callable[[], Any]] | Steppable,
        budget: RestartBudget | None = None,
    ):
        self.stopping = False
        self._environments = environments
        self._is_batch = isinstance(environments, Steppable)
        self._budget = budget
        self._num_envs = 0
        self._envs: list[Any] = [environments] if self._is_batch else []
        self._facts: list[dict] = []
        self._stepper: Any = None
        self._words: Any = None
        self._closed = False

    def construct(self, seconds: float | None) -> Outcome:
        failure = None
        if self._is_batch:
            self._facts = [batch_stepper.inspect(self._environments)]
        else:
            self._envs, self._facts, failure = stepper.construct(
                self._environments, 0, catch=_CATCH
            )
        outcome = Outcome()
        outcome.replies[0] = {"facts": self._facts}
        if failure is not None:
            outcome.faults.append(Fault(failure, None))
        return outcome

    def attach(
        self, plan: layout.Layout, memory: Any, descriptor: int, options: dict
    ) -> Outcome:
        views = layout.views(plan, memory)
        self._num_envs = count = len(views.reward)
        self._words = layout.control(memory, 0)
        arrays, check = views.of(0, 0, count), options["finite_check"]
        if self._is_batch:
            batch = self._environments
            self._stepper = BatchStepper(batch, arrays, self._words, check, _CATCH)
            return Outcome()
        spare = None
        if self._budget is not None:
            learner = layout.control(memory, plan.num_workers)
            seed = functools.partial(layout.seed, learner)
            spare = stepper.Spare(self._environments, self._facts, [0] * count, seed)
        checks = check, options["strict"], _CATCH, spare
        self._stepper = stepper.Stepper(self._envs, arrays, self._words, 0, *checks)
        return Outcome()

    def command(
        self, code: int, seed: int, limits: Sequence[float | None], context: Context
    ) -> Outcome:
        outcome = Outcome()
        if not self.stopping:
            try:
                if code == protocol.STEP:
                    found = self._stepper.step()
                else:
                    found = self._stepper.reset(seed)
            except BaseException:  # Ctrl-C: a row may be half stepped
                self.stop()
                raise
            self._take(outcome, found)
        if self.stopping:
            outcome.stopped = True
            outcome.lost.update(range(self._num_envs))
        return outcome

    def counters(self) -> dict[str, float]:
        """Metrics that are counters, since the start."""
        if self._is_batch:
            return {"env/unused_steps": self._stepper.unused}
        return {"env/stale_replies": 0}

    def listen(self, context: Context) -> list[Fault]:
        return []

    def stop(self) -> None:
        self.stopping = True
        if self._words is not None:
            self._words[layout.STOP] = 1

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.stop()
        if self._stepper is not None:
            self._stepper.close()
        else:
            for env in self._envs:
                env.close()
        self._envs = []

    def _take(self, outcome: Outcome, found: list) -> None:
        for failure in found:
            fault = Fault(failure, None)
            lost = range(self._num_envs) if self._is_batch else [failure.env]
            outcome.lost.update(lost)
            if self._budget is None:
                outcome.faults.append(fault)
            else:
                self._budget.failed(fault)
        notes = self._stepper.notes
        if notes:
            outcome.replies[0] = {"notes": list(notes)}
            notes.clear()
