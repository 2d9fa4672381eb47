"""A batch of environments, in worker processes or in this one, as NumPy arrays.

``reset`` and ``step`` always return, faults included, because what calls them may be
a compiled program: a failed row repeats its last good observation, with reward 0 and
``first`` and ``truncated`` both true. ``check`` raises what happened.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch import spaces
from tfagents_batch.envs import (
    actions,
    agreement,
    arguments,
    failures,
    layout,
    live,
    protocol,
    stepper,
)
from tfagents_batch.envs.outcome import Fault, Outcome
from tfagents_batch.errors import EnvError, Stopped, UserError

_LOG = logging.getLogger("tfagents_batch")


class Batch(NamedTuple):
    """What a batch of environments says, in arrays of its own.

    Attributes:
      observation: one ``[B, ...]`` per leaf, in the order of ``spaces.leaves``.
      reward: f32 ``[B]``.
      first, terminated, truncated: bool ``[B]``.
      info: ``{column: [B]}``.
    """

    observation: list[np.ndarray]
    reward: np.ndarray
    first: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    info: dict[str, np.ndarray]


class Pool:
    """Environments behind shared memory; one caller steps, any thread may stop.

    Environment i is seeded by its index, and rows are gathered by index, so the
    number of workers changes nothing but speed.

    Args:
      constructors: functions without arguments that make one ``gymnasium.Env`` each.
      num_workers: processes; 0 steps in this process; None takes one per core, at
        most one per environment.
      construct_seconds, reset_seconds, step_seconds: deadlines of a worker's answer,
        None for never. In process there are none.
      on_fault: "raise" fails the whole batch after a fault.
      finite_check: "raise" makes NaN and infinity in observations a fault; "off"
        passes them on.
      info_keys: ``{key: dtype}`` of numbers to copy from the environments' infos;
        float32, int32 or bool. A missing one is NaN, 0 or false.
      worker_variables: environment variables of worker processes.

    Attributes:
      num_envs, num_workers: sizes.
      observation_space, action_space: of one environment.
      info: ``{column: dtype}``.
      max_episode_steps: the environments' common time limit, None if unknown.

    Raises:
      EnvError: if an environment cannot be made.
      UserError: if an argument is wrong, spaces disagree, or memory is short.
    """

    def __init__(
        self,
        constructors: Sequence[Callable[[], Any]],
        num_workers: int | None = None,
        *,
        construct_seconds: float | None = 120.0,
        reset_seconds: float | None = 300.0,
        step_seconds: float | None = 60.0,
        on_fault: str = "raise",
        finite_check: str = stepper.RAISE,
        info_keys: Mapping[str, str] | None = None,
        worker_variables: Mapping[str, str] | None = None,
    ):
        constructors = list(constructors)
        self.num_envs = len(constructors)
        self.num_workers = arguments.worker_count(num_workers, self.num_envs)
        self.info = {**layout.STATISTICS, **arguments.info_columns(info_keys)}
        arguments.one_of("on_fault", on_fault, ("raise",))
        arguments.one_of("finite_check", finite_check, (stepper.RAISE, stepper.OFF))
        arguments.callables(constructors)
        self._seconds = (reset_seconds, step_seconds)
        self._lock = threading.Lock()
        self._fault: BaseException | None = None
        self._history: str | None = None  # why it is closed
        self._outside = self._wait_seconds = self._steps = 0
        self._reported: dict[str, float] = {}
        self._crew = self._make_crew(constructors, worker_variables or {})
        self._finalizer = weakref.finalize(self, self._crew.close)
        try:
            self._construct(construct_seconds, finite_check)
        except BaseException:
            self._finalizer()
            raise
        live.POOLS.add(self)

    def reset(self, seed: int) -> Batch:
        """Start every environment; row i depends on ``(seed, i)`` only."""
        payloads = [{"seed": int(seed) & (2**64 - 1)}] * max(self.num_workers, 1)
        limits = [self._seconds[0]] * max(self.num_workers, 1)
        with self._lock:
            if not self._usable():
                return self._failed()
            self._seed = int(seed) & (2**64 - 1)
            self._over[:] = True  # a crash now is one in reset
            outcome = self._run(protocol.RESET, payloads, limits)
            return self._collect(outcome)

    def step(self, action: Sequence[np.ndarray]) -> Batch:
        """Step every row; a row that was last ignores its action and restarts.

        Args:
          action: one ``[B, ...]`` per leaf, in the order of ``spaces.leaves``.
        """
        with self._lock:
            if not self._usable():
                return self._failed()
            if self._seed is None:
                self._fault = UserError("step was called before reset")
                return self._failed()
            try:
                self._writer.write(action, self._over)
            except actions.InvalidAction as error:
                self._record(Fault(self._action_failure(error), None))
                return self._failed()
            limits = self._limits if not self._over.any() else self._restart_limits()
            outcome = self._run(protocol.STEP, None, limits)
            self._steps += 1
            return self._collect(outcome)

    @property
    def ok(self) -> bool:
        """False after a fault, a stop or ``close``."""
        return self._fault is None and not self._crew.stopping

    def check(self) -> None:
        """Raise what went wrong, once; the workers are closed then.

        Raises:
          EnvError, UserError: a fault; also the use of a pool that is closed.
          Stopped: after ``stop``.
        """
        if self._fault is None and self._history is None:
            for fault in self._crew.idle_crashes(self._context)[:1]:
                self._record(fault)
            if self._crew.stopping and self._fault is None:
                self._fault = Stopped("stepping was asked to stop")
        error = self.take_fault()
        if error is not None:
            self.close()
            raise error

    def take_fault(self) -> BaseException | None:
        """The recorded fault, if it was not yet taken; the pool is over then."""
        error, self._fault = self._fault, None
        if error is not None and self._history is None:
            env = getattr(error, "env", None)
            where = "" if env is None else f" in env {env}"
            self._history = f"pool closed after {type(error).__name__}{where}"
        return error

    def fail(self, error: Exception) -> Batch:
        """Record a fault found by the caller; rows of which none is valid."""
        with self._lock:
            if self._usable():
                self._fault = error
            return self._failed()

    def stop(self) -> None:
        """Make a step that is under way, and all later ones, return at once.

        Safe from any thread and from signal handlers.
        """
        self._crew.stop()

    def close(self) -> None:
        """End workers and free memory, within two seconds; idempotent, any thread."""
        live.POOLS.discard(self)  # what it still has to say, its own user asks for
        if self._history is None:
            self._history = "pool is closed"
        self._finalizer()
        if self._lock.acquire(blocking=False):  # else the caller still reads them
            self._release()
            self._lock.release()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers; none in process."""
        return [worker.pid for worker in self._crew.workers]

    def metrics(self) -> dict[str, float]:
        """Counters since the last call."""
        now = {
            "clipped": self._writer.clipped,
            "total": self._writer.total,
            "outside": self._outside + self._count_outside(),
            "stale": self._crew.stale,
            "seconds": self._wait_seconds,
            "steps": self._steps,
        }
        new = {key: now[key] - self._reported.get(key, 0) for key in now}
        self._reported = now
        return {
            "env/action_clipped_fraction": new["clipped"] / max(new["total"], 1),
            "env/observation_out_of_bounds": float(new["outside"]),
            "env/stale_replies": float(new["stale"]),
            "time/env_step_ms": 1000 * new["seconds"] / max(new["steps"], 1),
        }

    def _make_crew(self, constructors, variables) -> Any:
        if self.num_workers == 0:
            from tfagents_batch.envs.local import LocalCrew

            return LocalCrew(constructors)
        from tfagents_batch.envs.crew import ProcessCrew

        return ProcessCrew(constructors, self.num_workers, variables)

    def _construct(self, seconds: float | None, finite_check: str) -> None:
        outcome = self._crew.construct(seconds)
        self._raise_first(outcome)
        facts = [
            x for i in sorted(outcome.replies) for x in outcome.replies[i]["facts"]
        ]
        agreement.same_spaces(facts)
        self.observation_space = spaces.from_json(facts[0]["observation_space"])
        self.action_space = spaces.from_json(facts[0]["action_space"])
        limits = {fact["max_episode_steps"] for fact in facts}
        self.max_episode_steps = limits.pop() if len(limits) == 1 else None
        observation = spaces.leaves(self.observation_space)
        action = spaces.leaves(self.action_space)
        lines = max(self.num_workers, 1)
        plan = layout.make_layout(observation, action, self.info, self.num_envs, lines)
        descriptor, self._memory = _allocate(plan, shared=self.num_workers > 0)
        try:
            attached = self._crew.attach(plan, self._memory, descriptor, finite_check)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        self._raise_first(attached)
        self._log_notes(attached)
        self._arrays = layout.views(plan, self._memory)
        self._words = [layout.control(self._memory, i) for i in range(lines)]
        self._writer = actions.ActionWriter(self.action_space, self._arrays.action)
        self._last = [np.zeros_like(array) for array in self._arrays.observation]
        self._over = np.ones(self.num_envs, bool)
        self._seed: int | None = None
        self._limits = [self._seconds[1]] * lines

    def _raise_first(self, outcome: Outcome) -> None:
        if outcome.faults:
            raise _exception(outcome.faults)
        if outcome.stopped:
            raise Stopped("construction was asked to stop")

    def _usable(self) -> bool:
        """Whether workers may be asked; notes the use of a closed pool."""
        if self._history is not None:
            if self._fault is None:
                self._fault = EnvError(f"{self._history}; make a new environment")
            return False
        return self.ok

    def _run(self, code: int, payloads: Any, limits: Sequence[float | None]) -> Outcome:
        started = time.monotonic()
        try:
            return self._crew.command(code, payloads, limits, context=self._context)
        except KeyboardInterrupt as error:
            self._fault = Stopped("interrupted while the environments were stepped")
            self._fault.__cause__ = error
            raise
        finally:
            self._wait_seconds += time.monotonic() - started

    def _restart_limits(self) -> list[float | None]:
        """Deadlines of a step in which some rows are reset."""
        if self.num_workers == 0:
            return self._limits
        longest = None if None in self._seconds else max(self._seconds)
        return [
            longest if self._over[worker.rows.start : worker.rows.stop].any() else limit
            for worker, limit in zip(self._crew.workers, self._limits, strict=True)
        ]

    def _collect(self, outcome: Outcome) -> Batch:
        """Copy the rows out; repair those that were lost."""
        self._log_notes(outcome)
        if outcome.faults:
            self._record(*outcome.faults)
        arrays = self._arrays
        if self._history is not None:  # closed while the step was under way
            batch = self._failed()
            self._release()
            return batch
        batch = Batch(
            [array.copy() for array in arrays.observation],
            arrays.reward.copy(),
            arrays.first.copy(),
            arrays.terminated.copy(),
            arrays.truncated.copy(),
            {name: column.copy() for name, column in arrays.info.items()},
        )
        if outcome.lost:
            self._repair(batch, sorted(outcome.lost))
        np.logical_or(batch.terminated, batch.truncated, out=self._over)
        for last, array in zip(self._last, batch.observation, strict=True):
            last[...] = array
        return batch

    def _log_notes(self, outcome: Outcome) -> None:
        for worker in sorted(outcome.replies):
            for note in outcome.replies[worker]["notes"]:
                _LOG.warning("%s", note)

    def _repair(self, batch: Batch, rows: Sequence[int]) -> None:
        for last, array in zip(self._last, batch.observation, strict=True):
            array[rows] = last[rows]
        batch.reward[rows] = 0
        batch.first[rows] = batch.truncated[rows] = True
        batch.terminated[rows] = False

    def _failed(self) -> Batch:
        """All rows failed."""
        count = self.num_envs
        return Batch(
            [array.copy() for array in self._last],
            np.zeros(count, np.float32),
            np.ones(count, bool),
            np.zeros(count, bool),
            np.ones(count, bool),
            {name: np.zeros(count, dtype) for name, dtype in self.info.items()},
        )

    def _record(self, *faults: Fault) -> None:
        if self._fault is None:
            self._fault = _exception(faults)

    def _context(self, row: int) -> dict[str, Any]:
        """What is known of a row whose worker cannot tell."""
        if self._seed is None:
            return {}
        over = bool(self._over[row])
        arrays = self._arrays
        known = {
            "seed": stepper.env_seed(self._seed, row),
            "episode": int(arrays.episode[row]),
            "phase": "reset" if over else "step",
            "step": 0 if over else int(arrays.info["episode_length"][row]),
        }
        if not over:
            known["action"] = actions.text(self.action_space, arrays.action, row)
        return known

    def _action_failure(self, error: actions.InvalidAction) -> failures.Failure:
        known: dict[str, Any] = {"phase": "step"}
        if error.row is not None:
            known |= self._context(error.row)
            known |= {"env": error.row, "action": error.action}
        return failures.Failure(failures.ACTION, text=str(error), **known)

    def _count_outside(self) -> int:
        return sum(words[layout.OUT_OF_BOUNDS] for words in self._words)

    def _release(self) -> None:
        """Drop the shared memory; the last observations stay for ``_failed``."""
        if getattr(self, "_memory", None) is None:
            return
        self._outside += self._count_outside()
        self._words, self._arrays, self._memory = [], None, None
        self._writer.release()


def _exception(faults: Sequence[Fault]) -> Exception:
    """Of the first environment in the batch, so worker counts do not matter."""

    def order(fault: Fault) -> float:
        env = fault.failure.env
        return float("inf") if env is None else env

    fault = min(faults, key=order)
    return failures.to_exception(fault.failure, fault.worker)


def _allocate(plan: layout.Layout, shared: bool) -> tuple[int, Any]:
    if shared:
        return layout.allocate(plan)
    return -1, bytearray(plan.size)
