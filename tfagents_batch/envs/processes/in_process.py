"""Environments in the learner's own process, behind the same commands as workers.

For debugging, cheap environments, vector environments, and platforms without worker
processes. There are no deadlines, because nothing could end a call that hangs. The
thread that creates environments also steps and closes them, see ``owner_thread``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

from tfagents_batch.envs.processes import owner_thread
from tfagents_batch.envs.processes.launcher import Worker
from tfagents_batch.envs.processes.restart_budget import RestartBudget
from tfagents_batch.envs.shared import layout, protocol
from tfagents_batch.envs.shared.failures import Context, Failure, Outcome
from tfagents_batch.envs.vector.batch_stepper import BatchStepper, Steppable
from tfagents_batch.envs.worker import construction
from tfagents_batch.envs.worker.stepper import Stepper

# Ctrl-C comes from the user, so KeyboardInterrupt is not an environment's failure.
_CATCH = (Exception, SystemExit)


class InProcess:
    """The in-process counterpart of ``Workers``: one stepper.

    Args:
      environments: constructors, or an existing batch.
      budget: grants restarts; None does not replace environments.
    """

    workers: tuple[Worker, ...] = ()
    stale = 0

    def __init__(
        self,
        environments: Sequence[Callable[[], Any]] | Steppable,
        budget: RestartBudget | None = None,
    ):
        self.stopping = False
        self.owner = owner_thread.current()  # constructs and steps
        self._environments = environments
        self._budget = budget
        self._rows = range(0)
        self._envs: list[Any] = []
        if isinstance(environments, Steppable):
            self._envs = [environments]
        self.facts: list[dict] = []
        self._stepper: Stepper | BatchStepper | None = None
        self._words: memoryview | None = None

    def construct(self, seconds: float | None) -> Outcome:
        outcome, environments = Outcome(), self._environments
        if isinstance(environments, Steppable):
            limit = {"max_episode_steps": environments.max_episode_steps}
            self.facts = [construction.inspect(environments) | limit]
        else:
            constructed = construction.construct(environments, 0, catch=_CATCH)
            self._envs, self.facts, failure = constructed
            outcome.faults += [failure] if failure else []
        return outcome

    def attach(self, plan: layout.Layout, options: dict) -> tuple[Any, Outcome]:
        memory = bytearray(plan.size)
        arrays = layout.views(plan, memory, worker=0)
        self._rows = range(len(arrays.reward))
        self._words = layout.control(memory, 0)
        check, environments = options["finite_check"], self._environments
        if isinstance(environments, Steppable):
            parts = environments, arrays, self._words
            self._stepper = BatchStepper(*parts, check, _CATCH)
            return memory, Outcome()
        spare = None
        if self._budget is not None:
            learner = layout.control(memory, plan.num_workers)
            seed = functools.partial(layout.seed, learner)
            restarts = options["restarts"]
            spare = construction.Spare(environments, self.facts, restarts, seed)
        checks = check, options["strict"], _CATCH, spare
        self._stepper = Stepper(self._envs, arrays, self._words, 0, *checks)
        return memory, Outcome()

    def command(
        self, code: int, seed: int, limits: Sequence[float | None], context: Context
    ) -> Outcome:
        outcome, stepper = Outcome(), self._stepper
        assert stepper is not None  # made by ``attach``
        command = stepper.step
        if code != protocol.STEP:
            command = functools.partial(stepper.reset, seed)
        if not self.stopping:
            try:
                faults = self.owner.call(command, lambda: self.stopping)
            except owner_thread.Abandoned:
                self.stop()
            except BaseException:  # Ctrl-C may have interrupted the step of a row
                self.stop()
                raise
            else:
                self._take(outcome, faults, stepper.notes)
        if self.stopping:
            outcome.stopped = True
            outcome.lost.update(self._rows)
        return outcome

    def listen(self, context: Context) -> list[Failure]:
        return []

    def stop(self) -> None:
        self.stopping = True
        if self._words is not None:
            self._words[layout.STOP] = 1

    def close(self) -> None:
        self.stop()
        with contextlib.suppress(owner_thread.Abandoned):  # then the owner closes later
            self.owner.call(self._close, lambda: True)

    def _close(self) -> None:
        if self._stepper is not None:
            self._stepper.close()
        else:
            for env in self._envs:
                env.close()
        self._envs = []

    def _take(self, outcome: Outcome, faults: list[Failure], notes: list[str]) -> None:
        is_batch = isinstance(self._stepper, BatchStepper)
        for fault in faults:
            if is_batch or fault.env is None:
                outcome.lost.update(self._rows)
            else:
                outcome.lost.add(fault.env)
            if self._budget is None:
                outcome.faults.append(fault)
            else:
                self._budget.grant_in_worker(fault)
        outcome.replies[0] = {"notes": list(notes)}
        notes.clear()
