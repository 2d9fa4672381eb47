"""Environments in the learner's own process, behind the same commands as workers.

For debugging, for environments that are cheap, and for platforms without worker
processes. There are no deadlines: nothing could end a call that hangs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tfagents_batch.envs import layout, protocol, stepper
from tfagents_batch.envs.healing import Healer
from tfagents_batch.envs.outcome import Context, Fault, Outcome

# Ctrl-C is the user's here, so KeyboardInterrupt is not an environment's failure.
_CATCH = (Exception, SystemExit)


class LocalCrew:
    """The in-process counterpart of ``ProcessCrew``: one stepper.

    Attributes:
      size: how many take commands.
    """

    size = 1
    stale = 0
    workers = ()

    def __init__(
        self, constructors: Sequence[Callable[[], Any]], healer: Healer | None = None
    ):
        self._constructors = constructors
        self._healer = healer
        self._envs: list[Any] = []
        self._facts: list[dict] = []
        self._stepper: stepper.Stepper | None = None
        self._words: Any = None
        self._stopping = False
        self._closed = False

    def construct(self, seconds: float | None) -> Outcome:
        self._envs, self._facts, failure = stepper.construct(
            self._constructors, 0, catch=_CATCH
        )
        outcome = Outcome()
        outcome.replies[0] = {"facts": self._facts}
        if failure is not None:
            outcome.faults.append(Fault(failure, None))
        return outcome

    def attach(
        self, plan: layout.Layout, memory: Any, descriptor: int, options: dict
    ) -> Outcome:
        count = len(self._envs)
        spare = None
        if self._healer is not None:
            learner = layout.control(memory, plan.num_workers)
            seed = functools.partial(layout.seed, learner)
            parts = self._constructors, self._facts, [0] * count
            spare = stepper.Spare(*parts, seed)
        self._words = layout.control(memory, 0)
        self._stepper = stepper.Stepper(
            self._envs,
            layout.views(plan, memory).of(0, 0, count),
            self._words,
            0,
            options["finite_check"],
            options["strict"],
            _CATCH,
            spare,
        )
        return Outcome()

    def command(
        self,
        code: int,
        payloads: Sequence[Any] | None,
        limits: Sequence[float | None],
        descriptors: Sequence[int] | None = None,
        context: Context = lambda row: {},
    ) -> Outcome:
        outcome = Outcome()
        if not self._stopping:
            try:
                if code == protocol.STEP:
                    found = self._stepper.step()
                else:
                    found = self._stepper.reset(payloads[0]["seed"])
            except BaseException:  # Ctrl-C: a row may be half stepped
                self.stop()
                raise
            self._tell(outcome, found)
        if self._stopping:
            outcome.stopped = True
            outcome.lost.update(range(len(self._constructors)))
        return outcome

    def idle_crashes(self, context: Context) -> list[Fault]:
        return []

    def stop(self) -> None:
        self._stopping = True
        if self._words is not None:
            self._words[layout.STOP] = 1

    @property
    def stopping(self) -> bool:
        return self._stopping

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

    def _tell(self, outcome: Outcome, found: list) -> None:
        outcome.lost.update(failure.env for failure in found)
        for failure in found:
            fault = Fault(failure, None)
            if self._healer is None:
                outcome.faults.append(fault)
            else:
                self._healer.failed(fault)
        notes = self._stepper.notes
        if notes:
            outcome.replies[0] = {"notes": list(notes)}
            notes.clear()
