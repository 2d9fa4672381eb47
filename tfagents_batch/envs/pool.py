"""A batch of environments, in worker processes or in this one, as NumPy arrays.

``reset`` and ``step`` always return, faults included, because what calls them may be
a compiled program: a failed row repeats its last good observation, with reward 0 and
``first`` and ``truncated`` both true. ``check`` raises what happened.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfagents_batch import spaces
from tfagents_batch.envs import (
    actions,
    agreement,
    arguments,
    batch,
    layout,
    live,
    routes,
    stepper,
)
from tfagents_batch.envs.batch import Batch
from tfagents_batch.envs.outcome import Outcome
from tfagents_batch.envs.portable import Portable
from tfagents_batch.errors import Stopped

_LOG = logging.getLogger("tfagents_batch")
_SPINS = 1000  # some 20 microseconds


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
      library: of the native hub, see ``native.build``; without it commands go over
        sockets.

    Attributes:
      num_envs, num_workers: sizes.
      observation_space, action_space: of one environment.
      info: ``{column: dtype}``.
      max_episode_steps: the environments' common time limit, None if unknown.
      handle: number of the native hub, None without one.
      unsuited: why the library was not used, None if it was or there is none.

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
        library: Any = None,
    ):
        constructors = list(constructors)
        self.num_envs = len(constructors)
        self.num_workers = arguments.worker_count(num_workers, self.num_envs)
        self.info = {**layout.STATISTICS, **arguments.info_columns(info_keys)}
        arguments.one_of("on_fault", on_fault, ("raise",))
        arguments.one_of("finite_check", finite_check, (stepper.RAISE, stepper.OFF))
        arguments.callables(constructors)
        self._seconds = (reset_seconds, step_seconds)
        self._library = library if self.num_workers else None
        self.unsuited: str | None = None
        self._outside = 0
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
        return self._engine.reset(int(seed) & batch.SEED_MASK)

    def step(self, action: Sequence[np.ndarray]) -> Batch:
        """Step every row; a row that was last ignores its action and restarts.

        Args:
          action: one ``[B, ...]`` per leaf, in the order of ``spaces.leaves``.
        """
        return self._engine.step(action)

    @property
    def ok(self) -> bool:
        """False after a fault, a stop or ``close``."""
        return self._engine.ok

    @property
    def handle(self) -> int | None:
        return getattr(self._engine, "handle", None)

    @property
    def token(self) -> int:
        """Of the native hub: what its last call gave."""
        return self._engine.token

    def check(self) -> None:
        """Raise what went wrong, once; the workers are closed then.

        Raises:
          EnvError, UserError: a fault; also the use of a pool that is closed.
          Stopped: after ``stop``.
        """
        engine = self._engine
        engine.review()
        if self._crew.stopping and engine.history is None and engine.fault is None:
            engine.fault = Stopped("stepping was asked to stop")
        error = self.take_fault()
        if error is not None:
            self.close()
            raise error

    def take_fault(self) -> BaseException | None:
        """The recorded fault, if it was not yet taken; the pool is over then."""
        error, self._engine.fault = self._engine.fault, None
        if error is not None:
            env = getattr(error, "env", None)
            where = "" if env is None else f" in env {env}"
            self._engine.end(f"pool closed after {type(error).__name__}{where}")
        return error

    def fail(self, error: Exception) -> Batch:
        """Record a fault found by the caller; rows of which none is valid."""
        return self._engine.fail(error)

    def stop(self) -> None:
        """Make a step that is under way, and all later ones, return at once.

        Safe from any thread and from signal handlers.
        """
        self._crew.stop()

    def close(self) -> None:
        """End workers and free memory, within two seconds; idempotent, any thread."""
        live.POOLS.discard(self)  # what it still has to say, its own user asks for
        self._engine.end("pool is closed")
        self._finalizer()
        self._outside += self._count_outside()
        self._words, self._memory = [], None
        self._engine.release()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers; none in process."""
        return [worker.pid for worker in self._crew.workers]

    def metrics(self) -> dict[str, float]:
        """Counters since the last call."""
        now = {
            **self._engine.counters(),
            "outside": self._outside + self._count_outside(),
            "stale": self._crew.stale,
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
        if self._library is not None:
            pair = self.observation_space, self.action_space
            self.unsuited = routes.unsuited(*pair, list(self.info))
            if self.unsuited:
                self._library = None
        lines = max(self.num_workers, 1)
        plan = layout.make_layout(observation, action, self.info, self.num_envs, lines)
        descriptor, self._memory = _allocate(plan, shared=self.num_workers > 0)
        try:
            spin = self._library is not None and _cores() > self.num_workers
            native = None if self._library is None else spin
            attached = self._crew.attach(
                plan, self._memory, descriptor, finite_check, native
            )
            self._raise_first(attached)
            self._engine = self._make_engine(plan, descriptor, spin)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        for note in attached.notes():
            _LOG.warning("%s", note)
        self._words = [layout.control(self._memory, i) for i in range(lines)]

    def _make_engine(self, plan: layout.Layout, descriptor: int, spin: bool) -> Any:
        common = (self._memory, plan, self.action_space, self.info)
        if self._library is None:
            return Portable(self._crew, *common, self._seconds)
        from tfagents_batch.envs.native.engine import Native
        from tfagents_batch.envs.native.hub import Hub

        shared = layout.views(plan, self._memory).action
        writer = actions.ActionWriter(self.action_space, shared)
        rows = [worker.rows.start for worker in self._crew.workers] + [self.num_envs]
        hub = Hub(
            self._library,
            plan,
            descriptor,
            writer,
            rows,
            self._seconds,
            self._crew.sequence,
            _SPINS if spin else 0,
        )
        self._crew.drive(hub)
        return Native(self._crew, hub, *common, writer)

    def _raise_first(self, outcome: Outcome) -> None:
        if outcome.faults:
            raise batch.exception(outcome.faults)
        if outcome.stopped:
            raise Stopped("construction was asked to stop")

    def _count_outside(self) -> int:
        return sum(words[layout.OUT_OF_BOUNDS] for words in self._words)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _allocate(plan: layout.Layout, shared: bool) -> tuple[int, Any]:
    if shared:
        return layout.allocate(plan)
    return -1, bytearray(plan.size)
