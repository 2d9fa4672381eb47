"""Worker processes in the place of others that ended, within a budget.

They are made beside the batch, which goes on without their rows meanwhile, or waits.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfagents_batch.envs import (
    agreement,
    failures,
    launcher,
    layout,
    protocol,
    requests,
)
from tfagents_batch.envs.failures import Failure
from tfagents_batch.envs.launcher import Worker
from tfagents_batch.envs.outcome import Fault, Outcome
from tfagents_batch.envs.restart_budget import RestartBudget
from tfagents_batch.envs.supervisor import Ended
from tfagents_batch.errors import EnvError


class Replacements:
    """Makes workers like those that there were; safe for threads.

    Args:
      budget: grants restarts.
      constructors: one per environment.
      facts: what is known of each environment, see ``stepper.inspect``.
      plan: of the shared memory.
      seconds: deadline of constructors, None for never.
      options: of ``requests.attach_payload``.

    Attributes:
      budget: as given.
    """

    def __init__(
        self,
        budget: RestartBudget,
        constructors: Sequence[Callable[[], Any]],
        facts: Sequence[dict],
        plan: layout.Layout,
        seconds: float | None,
        options: dict,
    ):
        self.budget = budget
        self._constructors = constructors
        self._facts = facts
        self._plan = plan
        self._seconds = seconds
        self._options = options

    def grant(self, worker: Worker, fault: Fault) -> bool:
        """Whether a worker that ended is to be replaced; else the budget gives up."""
        full = worker.exit_code == protocol.EXIT_FULL  # is nobody's fault
        full = full and self._options["max_bytes"] is not None
        return self.budget.lost(fault, worker.rows, charge=not full)

    def replace(
        self, host: Any, lost: Worker, fault: Fault, since: float
    ) -> Worker | None:
        """Make a worker.

        Args:
          host: ``ProcessExecutor``, which starts it.
          lost: it was granted that this one is replaced.
          fault: why it ended.
          since: when, on the monotonic clock.

        Returns:
          a worker that is ready for commands; None after a stop, or when the budget
          has given up.
        """
        try:
            while True:
                worker = Worker(lost.index, lost.rows)
                outcome = self._make(host, worker)
                if not outcome.faults and not outcome.stopped:
                    self.budget.record(fault, lost.rows, time.monotonic() - since)
                    return worker
                host.drop(worker)
                if outcome.stopped or not self.budget.lost(
                    outcome.faults[0], lost.rows
                ):
                    return None
        except Ended:  # the pool is closed
            return None
        except BaseException as error:  # nobody must wait for a replacement in vain
            self.budget.give_up(lost_track(lost, error))
            return None

    def _make(self, host: Any, worker: Worker) -> Outcome:
        """Start a worker and have it make its environments; it ends if that fails."""
        rows = slice(worker.rows.start, worker.rows.stop)
        try:
            host.start(worker)
            asked = requests.Requests(host.stop_descriptor)
            asked.add(worker)
            ask = functools.partial(_ask, asked, worker)
            pickled = launcher.pickled(self._constructors[rows], rows.start)
            try:
                payload = requests.construct_payload()
                outcome = ask(protocol.CONSTRUCT, payload, self._seconds, pickled)
            finally:
                os.close(pickled)
            if not outcome.faults and not outcome.stopped:
                facts = outcome.replies[worker.index]["facts"]
                outcome.faults += _differences(worker, self._facts[rows], facts)
            if not outcome.faults and not outcome.stopped:
                everyone = range(len(self._facts))
                restarts = self.budget.restarts(everyone)
                options = {**self._options, "restarts": restarts, "takes_over": True}
                payload = requests.attach_payload(self._plan, worker, **options)
                seconds = requests.SEND_SECONDS
                outcome = ask(protocol.ATTACH, payload, seconds, host.memory)
        except BaseException:
            end(worker)
            host.drop(worker)
            raise
        if outcome.faults or outcome.stopped:
            end(worker)
        return outcome


def end(worker: Worker) -> None:
    """Kill a worker, however it is."""
    if worker.pidfd >= 0:
        worker.kill()
        worker.reap()


def lost_track(worker: Worker, error: BaseException) -> EnvError:
    """An error of this library while a worker was to be replaced."""
    failure = EnvError(f"worker {worker.index} could not be replaced: {error}")
    failure.__cause__ = error
    return failure


def _ask(
    asked: requests.Requests,
    worker: Worker,
    code: int,
    payload: dict,
    seconds: float | None,
    descriptor: int,
) -> Outcome:
    limits = {worker.index: seconds}
    return asked.ask([worker], code, lambda _: payload, limits, lambda _: descriptor)


def _differences(
    worker: Worker, old: Sequence[dict], new: Sequence[dict]
) -> list[Fault]:
    """The first environment whose spaces are not those of the one it replaces."""
    for row, pair in zip(worker.rows, zip(old, new, strict=True), strict=True):
        found = agreement.difference(*pair)
        if found:
            text = f"the replacement of a failed one has other spaces: {found}"
            described = failures.describe(failures.Defect(text))
            failure = Failure(failures.ERROR, env=row, phase="construct", **described)
            return [Fault(failure, worker.index)]
    return []
