"""Environments in the learner's own process, behind the same commands as workers.

For debugging, for environments that are cheap, and for platforms without worker
processes. There are no deadlines: nothing could end a call that hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfagents_batch.envs import layout, protocol, stepper
from tfagents_batch.envs.outcome import Context, Fault, Outcome

# Ctrl-C is the user's here, so KeyboardInterrupt is not an environment's failure.
_CATCH = (Exception, SystemExit)


class LocalCrew:
    """The in-process counterpart of ``ProcessCrew``."""

    stale = 0
    workers = ()

    def __init__(self, constructors: Sequence[Callable[[], Any]]):
        self._constructors = constructors
        self._envs: list[Any] = []
        self._stepper: stepper.Stepper | None = None
        self._words: Any = memoryview(bytearray(layout.LINE)).cast("I")
        self._stopping = False
        self._closed = False

    def construct(self, seconds: float | None) -> Outcome:
        self._envs, facts, failure = stepper.construct(
            self._constructors, 0, catch=_CATCH
        )
        outcome = Outcome()
        outcome.replies[0] = {"facts": facts}
        if failure is not None:
            outcome.faults.append(Fault(failure, None))
        return outcome

    def attach(
        self,
        plan: layout.Layout,
        memory: Any,
        descriptor: int,
        finite_check: str,
        native: None = None,
    ) -> Outcome:
        self._words = layout.control(memory, 0)
        arrays = layout.views(plan, memory)
        self._stepper = stepper.Stepper(
            self._envs, arrays, self._words, 0, finite_check, _CATCH
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
        if self._stopping:
            outcome.stopped = True
            outcome.lost.update(range(len(self._constructors)))
            return outcome
        try:
            if code == protocol.STEP:
                found = self._stepper.step()
            else:
                found = self._stepper.reset(payloads[0]["seed"])
        except BaseException:  # Ctrl-C: a row may be half stepped
            self.stop()
            raise
        outcome.faults = [Fault(failure, None) for failure in found]
        outcome.lost = {failure.env for failure in found}
        if self._stepper.notes:
            notes, self._stepper.notes = self._stepper.notes, []
            outcome.replies[0] = {"notes": notes}
        if self._stopping:
            outcome.stopped = True
            outcome.lost = set(range(len(self._constructors)))
        return outcome

    def idle_crashes(self, context: Context) -> list[Fault]:
        return []

    def stop(self) -> None:
        self._stopping = True
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
