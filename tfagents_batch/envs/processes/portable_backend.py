"""Portable backend: Python sends commands over sockets, waits and copies rows.

It steps all environments at once; stepping in groups needs the native backend.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfagents_batch.envs.processes.in_process import InProcess
from tfagents_batch.envs.processes.workers import Workers
from tfagents_batch.envs.shared import actions, layout, protocol, step_batch
from tfagents_batch.envs.shared.failures import Outcome
from tfagents_batch.envs.shared.step_batch import StepBatch
from tfagents_batch.errors import EnvError, Stopped, UserError


class Portable:
    """Stepping of environments in worker processes or in this process.

    Args:
      workers: what runs the environments, attached to the memory.
      plan, memory: the shared memory and its layout.
      action_space: action space of one environment.
      info: ``{column: dtype}``.
      seconds: deadlines of a reset and of a step.
    """

    handle = None  # as there is no hub

    def __init__(
        self,
        workers: Workers | InProcess,
        plan: layout.Layout,
        memory: Any,
        action_space: Any,
        info: dict[str, str],
        seconds: Sequence[float | None],
    ):
        self.history: str | None = None  # why the environments have ended
        self.fault: BaseException | None = None  # not raised yet
        self._workers = workers
        self._space = action_space
        self._info = info
        self._seconds = seconds
        self._lock = threading.Lock()
        arrays = layout.views(plan, memory)
        self._arrays: layout.Arrays | None = arrays
        self._writer = actions.ActionWriter(action_space, arrays.action)
        self._last = [np.zeros_like(array) for array in arrays.observation]
        self._num_envs = len(arrays.reward)
        self._over = np.ones(self._num_envs, bool)
        self._lost = np.zeros(self._num_envs, np.int64)
        self._seed: int | None = None
        self._learner: Any = layout.control(memory, plan.num_workers)
        self._wait_seconds = self._steps = 0

    def reset(self, seed: int) -> StepBatch:
        with self._lock:
            if not self._usable():
                return self._failed()
            self._seed = seed
            self._learner[layout.SEED_LOW] = seed & 0xFFFFFFFF
            self._learner[layout.SEED_HIGH] = seed >> 32
            self._over[:] = True  # so a crash now counts as one in reset
            return self._run(protocol.RESET)

    def step(self, action: Sequence[np.ndarray]) -> StepBatch:
        with self._lock:
            if not self._usable():
                return self._failed()
            if self._seed is None:
                self.fault = UserError(step_batch.NO_RESET)
                return self._failed()
            try:
                self._writer.write(action, self._over)
            except actions.InvalidAction as error:
                known = {} if error.row is None else self.context(error.row)
                self.fault = step_batch.invalid_action(error, known)
                return self._failed()
            self._steps += 1
            return self._run(protocol.STEP)

    @property
    def ok(self) -> bool:
        return self.fault is None and not self._workers.stopping

    def review(self) -> None:
        """Record the failure of a worker that ended while idle."""
        if self.fault is None and self.history is None:
            for fault in self._workers.listen(self.context)[:1]:
                self.fault = step_batch.exception([fault])

    def give_up(self, error: Exception) -> None:
        """Record an error and fail all later calls."""
        if self.history is None and self.fault is None:
            self.fault = error

    def end(self, history: str) -> None:
        """Record why the environments have ended and fail all later calls."""
        if self.history is None:
            self.history = history

    def release(self) -> None:
        """Free the shared memory, now or when the current call returns."""
        if self._lock.acquire(blocking=False):
            self._release()
            self._lock.release()

    def counters(self) -> dict[str, float]:
        """Return the counters since the start."""
        return {
            "clipped": self._writer.clipped,
            "total": self._writer.total,
            "seconds": self._wait_seconds,
            "steps": self._steps,
            "env/lost_steps": int(self._lost.sum()),
        }

    def lost(self) -> np.ndarray:
        """Return int64 ``[B]``: number of failed steps of each row since the start."""
        return self._lost.copy()

    def context(self, row: int) -> dict[str, Any]:
        """Return known fields of ``Failure`` for a row of a worker that has ended."""
        over = bool(self._over[row])
        return step_batch.row_context(row, self._seed, over, self._arrays, self._space)

    def _usable(self) -> bool:
        """Return whether workers can be used; record their use after the end."""
        if self.history is not None:
            if self.fault is None:
                self.fault = EnvError(f"{self.history}; create a new environment")
            return False
        return self.ok

    def _run(self, code: int) -> StepBatch:
        started = time.monotonic()
        reset, step = self._seconds
        longest = None if reset is None or step is None else max(reset, step)
        assert self._seed is not None  # reset came first
        limits = []
        for worker in self._workers.workers:
            restarts = self._over[worker.rows.start : worker.rows.stop].any()
            limit = longest if restarts else step  # includes a reset
            limits.append(reset if code == protocol.RESET else limit)
        try:
            outcome = self._workers.command(code, self._seed, limits, self.context)
        except KeyboardInterrupt as error:
            self.fault = Stopped("interrupted while the environments were stepped")
            self.fault.__cause__ = error
            raise
        finally:
            self._wait_seconds += time.monotonic() - started
        return self._collect(outcome)

    def _collect(self, outcome: Outcome) -> StepBatch:
        """Copy the rows and fill in those that were lost."""
        outcome.log_notes()
        if outcome.faults and self.fault is None:
            self.fault = step_batch.exception(outcome.faults)
        if self.history is not None:  # closed during the step
            self._release()
            return self._failed()
        arrays = self._arrays
        assert arrays is not None  # until the end
        result = StepBatch(
            [array.copy() for array in arrays.observation],
            arrays.reward.copy(),
            arrays.first.copy(),
            arrays.terminated.copy(),
            arrays.truncated.copy(),
            {name: column.copy() for name, column in arrays.info.items()},
        )
        if outcome.lost:
            rows = sorted(outcome.lost)
            self._lost[rows] += 1
            for stored, array in zip(self._last, result.observation, strict=True):
                array[rows] = stored[rows]
            result.reward[rows] = 0
            result.first[rows] = result.truncated[rows] = True
            result.terminated[rows] = False
        self._over = result.terminated | result.truncated
        for stored, array in zip(self._last, result.observation, strict=True):
            stored[...] = array
        return result

    def _failed(self) -> StepBatch:
        """Return all rows as failed, with their last observations."""
        count = self._num_envs
        return StepBatch(
            [stored.copy() for stored in self._last],
            np.zeros(count, np.float32),
            np.ones(count, bool),
            np.zeros(count, bool),
            np.ones(count, bool),
            {name: np.zeros(count, dtype) for name, dtype in self._info.items()},
        )

    def _release(self) -> None:
        """Drop the shared memory; ``_failed`` uses copies."""
        self._arrays = self._learner = None
        self._writer.release()
