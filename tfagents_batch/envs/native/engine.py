"""The native engine: a hub steps the workers; Python words what went wrong."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfagents_batch.envs import actions, batch, interrupts, layout
from tfagents_batch.envs.batch import Batch
from tfagents_batch.envs.crew import ProcessCrew
from tfagents_batch.envs.native import hub as hubs
from tfagents_batch.envs.native.hub import Hub
from tfagents_batch.envs.outcome import Fault
from tfagents_batch.errors import EnvError, UserError

_LOG = logging.getLogger("tfagents_batch")


class Native:
    """Steps workers through a hub, whoever else calls the hub from a program.

    Args:
      crew: attached and driven by the hub.
      hub: opened on the pool's memory.
      memory: shared with the workers, laid out by ``plan``.
      plan: the layout.
      action_space: of one environment.
      info: ``{column: dtype}``.
      writer: the action leaves, for their words.

    Attributes:
      handle: the hub's number, for programs.
      history: why the pool is over; None while it is not.
    """

    def __init__(
        self,
        crew: ProcessCrew,
        hub: Hub,
        memory: Any,
        plan: layout.Layout,
        action_space: Any,
        info: dict[str, str],
        writer: actions.ActionWriter,
    ):
        self.history: str | None = None
        self.handle = hub.handle
        self._fault: BaseException | None = None
        self._crew = crew
        self._hub = hub
        self._memory = memory
        self._space = action_space
        self._arrays: layout.Arrays | None = layout.views(plan, memory)
        self._num_envs = len(self._arrays.reward)
        self._writer = writer
        self._outputs = [
            *((x.shape, x.dtype) for x in self._arrays.observation),
            *((self._num_envs, dtype) for dtype in ("f4", "?", "?", "?")),
            *((self._num_envs, dtype) for dtype in info.values()),
        ]
        self._columns = list(info)
        self._gathering = threading.RLock()
        self._gathered = False

    def reset(self, seed: int) -> Batch:
        out = self._empty()
        with interrupts.guard():
            self._hub.init(seed, out)
        return self._batch(out)

    def step(self, action: Sequence[np.ndarray]) -> Batch:
        out = self._empty()
        if not self._hub.ok:
            self._hub.init(0, out)  # which gives failed rows
            return self._batch(out)
        if not self._hub.report().started:
            return self.fail(UserError("step was called before reset"))
        try:
            self._writer.check_kinds(action)
        except actions.InvalidAction as error:
            return self.fail(_exception(error, {}))
        flat = [
            np.ascontiguousarray(x, np.float32 if x.dtype.kind == "f" else None)
            for x in action
        ]
        with interrupts.guard():
            self._hub.step(flat, out)
        return self._batch(out)

    @property
    def ok(self) -> bool:
        return self._hub.ok and not self._crew.stopping

    @property
    def token(self) -> int:
        """What the last call of anybody gave."""
        return self._hub.report().token

    @property
    def fault(self) -> BaseException | None:
        """What went wrong and was not yet taken."""
        self._gather()
        return self._fault

    @fault.setter
    def fault(self, error: BaseException | None) -> None:
        self._fault = error
        if error is not None:
            self._hub.refuse()

    def review(self) -> None:
        """Read what workers said unasked, and look whether they live."""
        if self.history is not None or self.fault is not None:
            return
        for fault in self._crew.listen(self.context)[:1]:
            self.fault = batch.exception([fault])

    def fail(self, error: Exception) -> Batch:
        """Record a fault found by the caller; rows of which none is valid."""
        if self._hub.ok:
            self.fault = error
        out = self._empty()
        self._hub.init(0, out)
        return self._batch(out)

    def end(self, history: str) -> None:
        """Fail all later calls."""
        if self.history is None:
            self._gather()  # before the workers are gone
            self.history = history
            self._hub.end()

    def release(self) -> None:
        """Drop the shared memory."""
        with self._gathering:
            self._arrays = self._memory = None
            self._writer.release()

    def counters(self) -> dict[str, float]:
        """Numbers since the start."""
        self.review()
        report = self._hub.report()
        return {
            "clipped": report.clipped,
            "total": report.total,
            "seconds": report.waited / 1e9,
            "steps": report.steps,
        }

    def context(self, row: int) -> dict[str, Any]:
        """What is known of a row whose worker cannot tell."""
        report = self._hub.report()
        seed = report.seed if report.started else None
        over = bool(self._hub.over(self._num_envs)[row])
        return batch.known(row, seed, over, self._arrays, self._space)

    def _gather(self) -> None:
        """Turn the hub's record into an exception, once."""
        with self._gathering:
            if self._fault is not None:
                return
            if self.history is not None:
                if self._hub.used and self._hub.report().used:
                    text = f"{self.history}; make a new environment"
                    self._fault = EnvError(text)
                return
            if self._gathered or not self._hub.failed:
                return
            report = self._hub.report()
            if report.kind != hubs.NOTHING:
                self._gathered = True
                self._fault = self._told(report)

    def _told(self, report: hubs.Report) -> Exception:
        if report.kind == hubs.STALE:
            return batch.stale(report.first, report.second)
        if report.kind == hubs.NO_RESET:
            return UserError("step was called before reset")
        if report.kind == hubs.ACTION:
            row, leaf = report.first, report.second
            error = self._writer.refusal(leaf, row, self._hub.refused())
            return _exception(error, self.context(row))
        outcome = self._crew.explain(
            report.first, report.sequence, report.states, self.context
        )
        for note in outcome.notes():
            _LOG.warning("%s", note)
        if not outcome.faults:
            return EnvError("a worker failed, and nothing is known of it")
        return batch.exception(outcome.faults)

    def _empty(self) -> list[np.ndarray]:
        return [np.zeros(shape, dtype) for shape, dtype in self._outputs]

    def _batch(self, out: list[np.ndarray]) -> Batch:
        count = len(out) - 4 - len(self._columns)
        info = dict(zip(self._columns, out[count + 4 :], strict=True))
        return Batch(out[:count], *out[count : count + 4], info)


def _exception(error: actions.InvalidAction, context: dict[str, Any]) -> Exception:
    return batch.exception([Fault(batch.invalid_action(error, context), None)])
