"""Native backend: a hub steps the workers, Python describes failures."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfagents_batch.envs.native import hub as hubs
from tfagents_batch.envs.native.hub import Hub
from tfagents_batch.envs.processes.workers import Workers
from tfagents_batch.envs.shared import actions, layout, step_batch
from tfagents_batch.errors import EnvError, UserError

_TOO_MANY = "receive waits for more groups than send has started"
_GROUP_FAULTS = {
    hubs.GROUP: "group {} does not exist or was given twice; groups are numbered from "
    "0, and make_env(..., groups=n) says how many there are",
    hubs.BUSY: "group {} is still stepping: call receive for it before you send "
    "it other actions",
    hubs.IDLE: "group {} has nothing to receive: send it actions first",
}


class Native:
    """Errors and counters of a hub, which programs call by its handle (see ``op``).

    The arguments are those of ``Hub`` and ``Portable``.
    """

    def __init__(
        self,
        library: Any,
        workers: Workers,
        plan: layout.Layout,
        memory: Any,
        action_space: Any,
        seconds: Sequence[float | None],
        poll: int,
        replaces: bool,
    ):
        self.history: str | None = None  # why the environments have ended
        self._fault: BaseException | None = None
        self._workers = workers
        self._replaces = replaces
        self._space = action_space
        arrays = layout.views(plan, memory)
        self._arrays: layout.Arrays | None = arrays
        self._shapes = [array.shape[1:] for array in arrays.action]
        self._writer = writer = actions.ActionWriter(action_space, arrays.action)
        firsts = (worker.rows.start for worker in workers.workers)
        rows = [*firsts, len(arrays.reward)]
        options = writer, rows, seconds, workers.sequence, poll, replaces
        self.hub = Hub(library, plan, workers.memory, *options)
        self.handle = self.hub.handle
        workers.drive(self.hub, report_ends=not replaces)
        self._record_lock = threading.RLock()
        self._has_read_record = False

    def check_shapes(self, rows: int, *action: np.ndarray) -> list[np.ndarray]:
        """Return an action whose shapes were unknown during tracing, of ``rows`` rows.

        If a shape is wrong, a failure is recorded, and the action is zeros.
        """
        try:
            self._writer.check_kinds(action, rows)
        except actions.InvalidAction as error:
            if self.hub.ok:
                self.fault = step_batch.invalid_action(error, {})
            leaves = zip(action, self._shapes, strict=True)
            return [np.zeros((rows, *shape), x.dtype) for x, shape in leaves]
        return list(action)

    @property
    def ok(self) -> bool:
        return self.hub.ok and not self._workers.stopping

    @property
    def fault(self) -> BaseException | None:
        """Error that has not been raised yet, or None."""
        self._read_record()
        return self._fault

    @fault.setter
    def fault(self, error: BaseException | None) -> None:
        self._fault = error
        if error is not None:
            self.hub.notify("refuse")

    def review(self) -> None:
        """Read unrequested messages of workers and check that they run."""
        if self._replaces or self.history is not None or self.fault is not None:
            return
        for fault in self._workers.listen(self.context)[:1]:
            self.fault = step_batch.exception([fault])

    def give_up(self, error: Exception) -> None:
        """Record an error and fail all later calls."""
        if self.history is None and self.fault is None:
            self.fault = error

    def end(self, history: str) -> None:
        """Record why the environments have ended and fail all later calls."""
        if self.history is None:
            self._read_record()  # before the workers end
            self.history = history
            self.hub.notify("end")

    def release(self) -> None:
        """Drop the shared memory."""
        with self._record_lock:
            self._arrays = None
            self._writer.release()

    def counters(self) -> dict[str, float]:
        """Return the counters since the start."""
        self.review()
        report = self.hub.report()
        return {
            "clipped": report.clipped,
            "total": report.total,
            "seconds": report.waited / 1e9,
            "steps": report.steps,
            "env/lost_steps": int(report.lost.sum()),
        }

    def lost(self) -> np.ndarray:
        """Return int64 ``[B]``: number of failed steps of each row since the start."""
        return self.hub.report().lost

    def context(self, row: int) -> dict[str, Any]:
        """Return known fields of ``Failure`` for a row of a worker that has ended."""
        report = self.hub.report()
        seed = report.seed if report.started else None
        over = bool(report.over[row])
        return step_batch.row_context(row, seed, over, self._arrays, self._space)

    def _read_record(self) -> None:
        """Convert the hub's record to an exception once."""
        with self._record_lock:
            if self._fault is not None:
                return
            if self.history is not None:
                if self.hub.take_used():
                    self._fault = EnvError(f"{self.history}; create a new environment")
                return
            if self._has_read_record or not self.hub.failed:
                return
            report = self.hub.report()
            if report.kind != hubs.NOTHING:
                self._has_read_record = True
                self._fault = self._to_exception(report)

    def _to_exception(self, report: hubs.HubReport) -> Exception:
        if report.kind == hubs.STALE:
            return step_batch.stale(report.first, report.second)
        if report.kind == hubs.NO_RESET:
            return UserError(step_batch.NO_RESET)
        if report.kind in _GROUP_FAULTS:
            idle = report.kind == hubs.IDLE and report.first < 0  # no group was named
            text = _TOO_MANY if idle else _GROUP_FAULTS[report.kind]
            return UserError(text.format(report.first))
        if report.kind == hubs.ACTION:
            row, leaf = report.first, report.second
            error = self._writer.refusal(leaf, row, report.refused)
            return step_batch.invalid_action(error, self.context(row))
        failed = {
            worker: state == hubs.LATE
            for worker, state in enumerate(report.states)
            if state in (hubs.FAILED, hubs.DEAD, hubs.LATE)
        }
        sequences = report.sequences.tolist()
        outcome = self._workers.explain(report.first, sequences, failed, self.context)
        outcome.log_notes()
        if not outcome.faults:
            return EnvError("a worker failed for an unknown reason")
        return step_batch.exception(outcome.faults)
