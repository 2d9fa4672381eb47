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
    """The in-process counterpart of ``ProcessCrew``: one stepper per group.

    Attributes:
      size: how many take commands, one a group.
    """

    stale = 0
    workers = ()

    def __init__(
        self,
        constructors: Sequence[Callable[[], Any]],
        num_groups: int,
        healer: Healer | None = None,
    ):
        self.size = num_groups
        self._constructors = constructors
        self._healer = healer
        self._envs: list[Any] = []
        self._facts: list[dict] = []
        self._steppers: list[stepper.Stepper] = []
        self._results: dict[int, Outcome] = {}
        self._words: list[Any] = []
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
        arrays = layout.views(plan, memory)
        seed = functools.partial(layout.seed, layout.control(memory, plan.num_workers))
        for group in range(self.size):
            rows = self._rows(group)
            part = slice(rows.start, rows.stop)
            spare = None
            if self._healer is not None:
                facts, restarts = self._facts[part], [0] * len(rows)
                made = self._constructors[part]
                spare = stepper.Spare(made, facts, restarts, seed)
            self._words.append(layout.control(memory, group))
            self._steppers.append(
                stepper.Stepper(
                    self._envs[part],
                    arrays.of(group, rows.start, rows.stop),
                    self._words[-1],
                    rows.start,
                    options["finite_check"],
                    options["strict"],
                    _CATCH,
                    spare,
                )
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
        everyone = range(self.size)
        self._obey(everyone, code, payloads)
        return self._collect(everyone)

    def begin(
        self,
        workers: Sequence[int],
        code: int,
        limits: Sequence[float | None],
        context: Context,
    ) -> None:
        self._obey(workers, code, None)

    def finish(
        self, groups: Sequence[Sequence[int]], count: int
    ) -> list[tuple[int, Outcome]]:
        return [(i, self._collect(group)) for i, group in enumerate(groups[:count])]

    def idle_crashes(self, context: Context) -> list[Fault]:
        return []

    def stop(self) -> None:
        self._stopping = True
        for words in self._words:
            words[layout.STOP] = 1

    @property
    def stopping(self) -> bool:
        return self._stopping

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.stop()
        for each in self._steppers:
            each.close()
        if not self._steppers:
            for env in self._envs:
                env.close()
        self._envs = []

    def _rows(self, group: int) -> range:
        count = len(self._constructors) // self.size
        return range(group * count, (group + 1) * count)

    def _obey(self, groups: Sequence[int], code: int, payloads: Any) -> None:
        for group in groups:
            if self._stopping:
                return
            each = self._steppers[group]
            try:
                if code == protocol.STEP:
                    found = each.step()
                else:
                    found = each.reset(payloads[group]["seed"])
            except BaseException:  # Ctrl-C: a row may be half stepped
                self.stop()
                raise
            self._results[group] = self._outcome(group, found)

    def _outcome(self, group: int, found: list) -> Outcome:
        outcome = Outcome()
        outcome.lost = {failure.env for failure in found}
        for failure in found:
            fault = Fault(failure, None)
            if self._healer is None:
                outcome.faults.append(fault)
            else:
                self._healer.failed(fault)
        notes = self._steppers[group].notes
        if notes:
            outcome.replies[group] = {"notes": list(notes)}
            notes.clear()
        return outcome

    def _collect(self, groups: Sequence[int]) -> Outcome:
        outcome = Outcome()
        for group in groups:
            outcome.add(self._results.pop(group, Outcome()))
            if self._stopping:
                outcome.stopped = True
                outcome.lost.update(self._rows(group))
        return outcome
