"""The portable engine: Python sends commands over sockets, waits, and copies rows."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfagents_batch.envs import actions, batch, layout, protocol
from tfagents_batch.envs.batch import Batch
from tfagents_batch.envs.outcome import Fault, Outcome
from tfagents_batch.errors import EnvError, Stopped, UserError

_LOG = logging.getLogger("tfagents_batch")


class Portable:
    """Steps a crew, in worker processes or in this process.

    Args:
      crew: ``ProcessCrew`` or ``LocalCrew``, attached.
      memory: shared with it, laid out by ``plan``.
      plan: the layout.
      action_space: of one environment.
      info: ``{column: dtype}``.
      seconds: deadlines of a reset and of a step.

    Attributes:
      history: why the pool is over; None while it is not.
      fault: what went wrong and was not yet taken.
    """

    def __init__(
        self,
        crew: Any,
        memory: Any,
        plan: layout.Layout,
        action_space: Any,
        info: dict[str, str],
        seconds: Sequence[float | None],
    ):
        self.history: str | None = None
        self.fault: BaseException | None = None
        self._crew = crew
        self._memory = memory
        self._space = action_space
        self._info = info
        self._seconds = seconds
        self._lock = threading.Lock()
        self._arrays: layout.Arrays | None = layout.views(plan, memory)
        self._writer = actions.ActionWriter(action_space, self._arrays.action)
        self._last = [np.zeros_like(array) for array in self._arrays.observation]
        self._num_envs = len(self._arrays.reward)
        self._num_groups = plan.num_groups
        self._rows = self._num_envs // plan.num_groups  # of a group
        self._sent: list[int] = []  # groups at work, the longest under way first
        self._over = np.ones(self._num_envs, bool)
        self._lost = np.zeros(self._num_envs, np.int64)
        self._seed: int | None = None
        self._learner = layout.control(memory, plan.num_workers)
        self._wait_seconds = self._steps = 0

    def reset(self, seed: int) -> Batch:
        with self._lock:
            if not self._usable():
                return self._failed()
            if self._sent:  # results nobody will ask for
                for group, outcome in self._finish(self._sent, len(self._sent)):
                    self._collect(group, outcome)
                if not self._usable():
                    return self._failed()
            self._seed = seed
            self._learner[layout.SEED_LOW] = seed & 0xFFFFFFFF
            self._learner[layout.SEED_HIGH] = seed >> 32
            self._over[:] = True  # a crash now is one in reset
            payloads = [{"seed": seed}] * self._crew.size
            return self._run(protocol.RESET, payloads)

    def step(self, action: Sequence[np.ndarray]) -> Batch:
        with self._lock:
            fine = self._started() and self._none_of(range(self._num_groups))
            if not fine or not self._write(action, slice(None)):
                return self._failed()
            self._steps += 1
            return self._run(protocol.STEP, None)

    def send(self, groups: np.ndarray, action: Sequence[np.ndarray]) -> None:
        """Have groups do a step; see ``Pool.send``."""
        with self._lock:
            chosen = groups.tolist()
            if not self._started() or not self._known(chosen):
                return
            if not self._none_of(chosen):
                return
            for position, group in enumerate(chosen):
                part = slice(position * self._rows, (position + 1) * self._rows)
                if any(len(x) < part.stop for x in action):
                    part = slice(None)  # which says what is wrong with it
                if not self._write([x[part] for x in action], self._slice(group)):
                    return
            for group in chosen:
                self._begin(group)
                self._sent.append(group)

    def receive(
        self, groups: np.ndarray | None, count: int
    ) -> tuple[np.ndarray, Batch]:
        """Rows of groups; see ``Pool.receive``."""
        asked = list(range(count)) if groups is None else groups.tolist()
        with self._lock:
            fine = self._started()
            if fine and groups is not None:
                fine = self._known(asked) and self._all_sent(asked)
            elif fine and count > len(self._sent):
                self.fault, fine = batch.idle_group(-1), False
            if not fine:
                return np.array(asked, np.int32), self._failed(count * self._rows)
            self._steps += 1
            waited = self._sent if groups is None else asked
            found = self._finish(waited, count)
            parts = [self._collect(group, outcome) for group, outcome in found]
            numbers = np.array([group for group, _ in found], np.int32)
            return numbers, parts[0] if count == 1 else batch.join(parts)

    @property
    def ok(self) -> bool:
        return self.fault is None and not self._crew.stopping

    def review(self) -> None:
        """Look for what happened unasked: workers that ended while idle."""
        if self.fault is None and self.history is None:
            for fault in self._crew.idle_crashes(self.context)[:1]:
                self._record(fault)

    def fail(self, error: Exception) -> Batch:
        """Record a fault found by the caller; rows of which none is valid."""
        with self._lock:
            if self._usable():
                self.fault = error
            return self._failed()

    def give_up(self, error: Exception) -> None:
        """Fail all later calls: what failed is not replaced any more."""
        if self.history is None and self.fault is None:
            self.fault = error

    def end(self, history: str) -> None:
        """Fail all later calls."""
        if self.history is None:
            self.history = history

    def release(self) -> None:
        """Drop the shared memory, now or when the call under way returns."""
        if self._lock.acquire(blocking=False):
            self._release()
            self._lock.release()

    def counters(self) -> dict[str, float]:
        """Numbers since the start."""
        return {
            "clipped": self._writer.clipped,
            "total": self._writer.total,
            "seconds": self._wait_seconds,
            "steps": self._steps,
            "lost": int(self._lost.sum()),
        }

    def lost(self) -> np.ndarray:
        """int64 ``[B]``: failed rows since the start."""
        return self._lost.copy()

    def context(self, row: int) -> dict[str, Any]:
        """What is known of a row whose worker cannot tell."""
        over = bool(self._over[row])
        return batch.known(row, self._seed, over, self._arrays, self._space)

    def _usable(self) -> bool:
        """Whether workers may be asked; notes the use of a closed pool."""
        if self.history is not None:
            if self.fault is None:
                self.fault = EnvError(f"{self.history}; make a new environment")
            return False
        return self.ok

    def _started(self) -> bool:
        if not self._usable():
            return False
        if self._seed is None:
            self.fault = UserError(batch.NO_RESET)
        return self._seed is not None

    def _known(self, groups: Sequence[int]) -> bool:
        for position, group in enumerate(groups):
            if not 0 <= group < self._num_groups or group in groups[:position]:
                self.fault = batch.no_group(group)
                return False
        return True

    def _none_of(self, groups: Sequence[int]) -> bool:
        busy = [group for group in groups if group in self._sent]
        if busy:
            self.fault = batch.busy_group(busy[0])
        return not busy

    def _all_sent(self, groups: Sequence[int]) -> bool:
        idle = [group for group in groups if group not in self._sent]
        if idle:
            self.fault = batch.idle_group(idle[0])
        return not idle

    def _write(self, action: Sequence[np.ndarray], rows: slice) -> bool:
        try:
            self._writer.write(action, self._over[rows], rows)
        except actions.InvalidAction as error:
            known = {} if error.row is None else self.context(error.row)
            self._record(Fault(batch.invalid_action(error, known), None))
            return False
        return True

    def _slice(self, group: int) -> slice:
        return slice(group * self._rows, (group + 1) * self._rows)

    def _begin(self, group: int) -> None:
        size = self._crew.size // self._num_groups
        workers = range(group * size, (group + 1) * size)
        limits = self._limits(protocol.STEP)[workers.start : workers.stop]
        with self._interruptible():
            self._crew.begin(workers, protocol.STEP, limits, self.context)

    def _finish(self, groups: Sequence[int], count: int) -> list[tuple[int, Outcome]]:
        size = self._crew.size // self._num_groups
        workers = [range(group * size, (group + 1) * size) for group in groups]
        with self._interruptible():
            found = self._crew.finish(workers, count)
        numbered = [(groups[position], outcome) for position, outcome in found]
        done = {group for group, _ in numbered}
        self._sent = [group for group in self._sent if group not in done]
        return numbered

    def _run(self, code: int, payloads: Any) -> Batch:
        limits = self._limits(code)
        with self._interruptible():
            outcome = self._crew.command(code, payloads, limits, context=self.context)
        return self._collect(None, outcome)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        except KeyboardInterrupt as error:
            self.fault = Stopped("interrupted while the environments were stepped")
            self.fault.__cause__ = error
            raise
        finally:
            self._wait_seconds += time.monotonic() - started

    def _limits(self, code: int) -> list[float | None]:
        """Deadlines by worker; a row that restarts has a reset's time."""
        limit = self._seconds[0 if code == protocol.RESET else 1]
        limits = [limit] * self._crew.size
        if code == protocol.RESET or not self._crew.workers or not self._over.any():
            return limits
        longest = None if None in self._seconds else max(self._seconds)
        return [
            longest if self._over[worker.rows.start : worker.rows.stop].any() else limit
            for worker in self._crew.workers
        ]

    def _collect(self, group: int | None, outcome: Outcome) -> Batch:
        """Copy the rows of a group out, or all; repair those that were lost."""
        for note in outcome.notes():
            _LOG.warning("%s", note)
        if outcome.faults:
            self._record(*outcome.faults)
        rows = slice(None) if group is None else self._slice(group)
        if self.history is not None:  # closed while the step was under way
            failed = self._failed(None if group is None else self._rows)
            self._release()
            return failed
        arrays = self._arrays
        found = Batch(
            [array[rows].copy() for array in arrays.observation],
            arrays.reward[rows].copy(),
            arrays.first[rows].copy(),
            arrays.terminated[rows].copy(),
            arrays.truncated[rows].copy(),
            {name: column[rows].copy() for name, column in arrays.info.items()},
        )
        start = rows.start or 0
        lost = [row - start for row in sorted(outcome.lost)]
        self._lost[sorted(outcome.lost)] += 1
        last = [array[rows] for array in self._last]
        if lost:
            self._repair(found, lost, last)
        np.logical_or(found.terminated, found.truncated, out=self._over[rows])
        for kept, array in zip(last, found.observation, strict=True):
            kept[...] = array
        return found

    def _repair(
        self, found: Batch, rows: Sequence[int], last: Sequence[np.ndarray]
    ) -> None:
        for kept, array in zip(last, found.observation, strict=True):
            array[rows] = kept[rows]
        found.reward[rows] = 0
        found.first[rows] = found.truncated[rows] = True
        found.terminated[rows] = False

    def _failed(self, count: int | None = None) -> Batch:
        """All rows failed, or as many; all have their last observations."""
        everyone = count in (None, self._num_envs)
        count = self._num_envs if everyone else count
        return Batch(
            [
                x.copy() if everyone else np.zeros((count, *x.shape[1:]), x.dtype)
                for x in self._last
            ],
            np.zeros(count, np.float32),
            np.ones(count, bool),
            np.zeros(count, bool),
            np.ones(count, bool),
            {name: np.zeros(count, dtype) for name, dtype in self._info.items()},
        )

    def _record(self, *faults: Fault) -> None:
        if self.fault is None:
            self.fault = batch.exception(faults)

    def _release(self) -> None:
        """The last observations stay, for ``_failed``."""
        self._arrays = self._memory = None
        self._learner = None
        self._writer.release()
