"""Batch of environments as NumPy arrays, in worker processes or this process.

``reset`` and ``step`` return even after a failure, because a compiled program may call
them. A failed row repeats its last valid observation, with reward 0 and both ``first``
and ``truncated`` true. ``check`` raises the failure. With ``on_fault="restart"`` the
environment is replaced instead, and ``events`` reports it.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfagents_batch import spaces
from tfagents_batch.envs.processes import (
    backends,
    interrupts,
    restart_budget,
)
from tfagents_batch.envs.processes.in_process import LocalExecutor
from tfagents_batch.envs.processes.owner_thread import Owner
from tfagents_batch.envs.processes.portable_backend import Portable
from tfagents_batch.envs.processes.restart_budget import RestartBudget
from tfagents_batch.envs.processes.stragglers import Stragglers
from tfagents_batch.envs.shared import (
    arguments,
    cpus,
    layout,
    same_spaces,
    step_batch,
)
from tfagents_batch.envs.shared.failures import Outcome
from tfagents_batch.envs.shared.options import RESTART, PoolOptions
from tfagents_batch.envs.vector.batch_stepper import Steppable
from tfagents_batch.errors import Stopped, UserError

_LOG = logging.getLogger("tfagents_batch")


class Pool:
    """Environments in shared memory; one thread steps them, any thread may stop them.

    Environment i is seeded by its index, and rows are ordered by index, so the number
    of workers affects only the speed.

    Args:
      constructors: functions without arguments that create one ``gymnasium.Env`` each,
        or an existing batch, which is stepped in this process.
      num_workers: number of processes; 0 steps in this process; None uses one per core,
        but at most one per environment.
      **options: fields of ``PoolOptions``.

    Attributes:
      num_envs, num_workers, num_groups: sizes.
      observation_space, action_space: spaces of one environment.
      info: ``{column: dtype}``.
      max_episode_steps: the environments' common time limit, None if unknown.
      words: control words of each worker, see ``shared.layout``; none after closing.
      engine: backend that steps the environments, ``Native`` or ``Portable``.
      handle: number of the native hub, None without one.
      reason: why the portable backend is used; "" with the native one.

    Raises:
      EnvError: if an environment cannot be created.
      UserError: if an argument is wrong, spaces disagree, or memory is short.
    """

    def __init__(
        self,
        constructors: Sequence[Callable[[], Any]] | Steppable,
        num_workers: int | None = None,
        **options: Any,
    ):
        if isinstance(constructors, Steppable):
            self.num_envs, num_workers = constructors.num_envs, 0
        else:
            constructors = list(constructors)
            arguments.callables(constructors)
            self.num_envs = len(constructors)
        chosen = PoolOptions(**options)
        sizes = self.num_envs, chosen.groups
        self.num_workers = arguments.worker_count(num_workers, *sizes)
        self.num_groups = arguments.groups(
            chosen.groups, self.num_envs, self.num_workers
        )
        self.info = layout.STATISTICS | arguments.info_columns(chosen.info_keys)
        self._library, self.reason = backends.choose(chosen.backend, self.num_workers)
        backends.refuse_groups(self.num_groups, self.reason)
        self._budget: RestartBudget | None = None
        if chosen.on_fault == RESTART:
            limits = chosen.max_restarts, chosen.restart_period_seconds
            self._budget = RestartBudget(self.num_envs, *limits)
        self._reported_lost = np.zeros(self.num_envs, np.int64)
        self._stragglers = Stragglers()
        self._seconds = (chosen.reset_seconds, chosen.step_seconds)
        self._counted: dict[str, float] = {}
        self._reported: dict[str, float] = {}
        cores = cpus.available()
        if self.num_workers > len(cores):
            _LOG.warning(
                "%d worker processes share %d cores: fewer workers are usually faster, "
                "unless environments mostly wait",
                self.num_workers,
                len(cores),
            )
        self._waiting = cpus.choose(self.num_workers, cores, chosen.pin_workers)
        for_workers = chosen.for_workers() | {
            "poll_microseconds": self._waiting.worker,
            "cores": self._waiting.cores,
            "restarts": None if self._budget is None else [0] * self.num_envs,
        }
        if self.num_workers:  # the module needs Linux
            from tfagents_batch.envs.processes.worker_group import (
                ProcessExecutor,
            )

            sizes = self.num_workers, self.num_groups
            variables = dict(chosen.worker_variables or {})
            self._executor: Any = ProcessExecutor(constructors, *sizes, variables)
        else:
            self._executor = LocalExecutor(constructors, self._budget)
        self._finalizer = weakref.finalize(self, self._executor.close)
        try:
            self._construct(chosen.construct_seconds, for_workers)
        except OSError as error:  # not an environment's: that is a failure
            self._finalizer()
            raise UserError(
                f"{self.num_workers} worker processes cannot be started: "
                f"{error.strerror}; raise the limit of open files (ulimit -n) or of "
                "processes (ulimit -u), or use fewer workers"
            ) from error
        except BaseException:
            self._finalizer()
            raise
        interrupts.POOLS.add(self)
        wanted = self.num_workers > 0 and chosen.backend != backends.PORTABLE
        backends.log_choice(self.num_envs, self.num_workers, self.reason, wanted)

    @property
    def ok(self) -> bool:
        """Return whether there was no failure, stop or ``close``."""
        return self.engine.ok

    def check(self) -> None:
        """Raise the recorded error once, and close the workers.

        Raises:
          EnvError, UserError: for a failure, or for the use of a closed pool.
          Stopped: after ``stop``.
        """
        engine = self.engine
        engine.review()
        if self._executor.stopping and engine.history is None and engine.fault is None:
            engine.fault = Stopped("stop() ended the stepping")
        error = self.take_fault()
        if error is not None:
            self.close()
            raise error

    def take_fault(self) -> BaseException | None:
        """Return the failure not raised yet, or None; a failure ends the pool."""
        error = self.engine.fault
        if error is not None:
            self.engine.fault = None
            env = getattr(error, "env", None)
            where = "" if env is None else f" in env {env}"
            self.engine.end(f"pool closed after {type(error).__name__}{where}")
        return error

    def stop(self) -> None:
        """Make the current step, and all later ones, return at once.

        Safe from any thread and from signal handlers.
        """
        self._executor.stop()

    def close(self) -> None:
        """End workers and free memory within two seconds; idempotent, any thread."""
        interrupts.POOLS.discard(self)
        self.engine.end("pool is closed")
        self._finalizer()
        self._count()
        self.words, self._memory, self._timing = [], None, None
        self.engine.release()

    @property
    def owner(self) -> Owner | None:
        """Return the thread that owns environments of this process; None otherwise."""
        return self._executor.owner

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the workers; none for in-process stepping."""
        return [worker.pid for worker in self._executor.workers]

    def metrics(self) -> dict[str, float]:
        """Return the counters since the last call."""
        now = {
            **self.engine.counters(),
            **self._count(),
            "restarts": self._budget.count if self._budget else 0,
        }
        new = {key: now[key] - self._reported.get(key, 0) for key in now}
        self._reported = now
        times, warning, timing = {}, "", self._timing
        if timing is not None:  # None while another thread closes the pool
            times, warning = self._stragglers.measure(timing)
        if warning:
            _LOG.warning("%s", warning)
        sizes = [worker.resident_bytes() for worker in self._executor.workers]
        clipped = {}
        if spaces.has_box(self.action_space):
            share = new["clipped"] / max(new["total"], 1)
            clipped = {"env/action_clipped_fraction": share}
        return {
            **clipped,
            "env/observation_out_of_bounds": float(new["outside"]),
            "env/not_finite": float(new["not_finite"]),
            "env/stale_replies": float(new["stale"]),
            "env/restarts": float(new["restarts"]),
            "env/lost_steps": float(new["lost"]),
            "time/env_step_ms": 1000 * new["seconds"] / max(new["steps"], 1),
            **times,
            **({"system/worker_mb": max(sizes) / 2**20} if any(sizes) else {}),
        }

    def events(self) -> list[dict[str, Any]]:
        """Return failures and restarts of environments since the last call.

        Returns:
          dicts of ``RestartBudget.events``. A restart also has ``lost_steps``, the
          number of failed steps of its rows.
        """
        if self._budget is None:
            return []
        events, lost = self._budget.events(), self.engine.lost()
        for event in events:
            if event["event"] != restart_budget.RESTARTED:
                continue
            rows = event["envs"]
            event["lost_steps"] = int((lost - self._reported_lost)[rows].sum())
            self._reported_lost[rows] = lost[rows]
        return events

    def _count(self) -> dict[str, float]:
        """Return the counters; after closing, their last values."""
        words = self.words
        if words:
            self._counted = {
                "outside": sum(line[layout.OUT_OF_BOUNDS] for line in words),
                "not_finite": sum(line[layout.NOT_FINITE] for line in words),
                "stale": self._executor.stale,
            }
        return self._counted

    def _construct(self, seconds: float | None, options: dict[str, Any]) -> None:
        _raise_first(self._executor.construct(seconds))
        facts = self._executor.facts
        same_spaces.same_spaces(facts)
        self.observation_space = spaces.from_json(facts[0]["observation_space"])
        self.action_space = spaces.from_json(facts[0]["action_space"])
        limits = {fact["max_episode_steps"] for fact in facts}
        self.max_episode_steps = limits.pop() if len(limits) == 1 else None
        observation = spaces.leaves(self.observation_space)
        action = spaces.leaves(self.action_space)
        if not self.reason:
            self.reason = backends.unsuited(observation, action, len(self.info))
            backends.refuse_groups(self.num_groups, self.reason)
        lines = max(self.num_workers, 1)
        sizes = self.num_envs, lines, self.num_groups
        plan = layout.make_layout(observation, action, self.info, *sizes)
        if self.num_workers:
            self._memory = layout.allocate(plan, self._executor.memory)
        else:
            self._memory = bytearray(plan.size)
        options["native"] = not self.reason
        attached = self._executor.attach(plan, self._memory, options)
        _raise_first(attached)
        self.engine = self._make_engine(plan)
        self.handle = self.engine.handle
        if self._budget is not None:
            self._budget.give_up = self.engine.give_up
            if self.num_workers:
                self._executor.replace_lost(self._budget, self.engine)
        attached.log_notes()
        self.words = [layout.control(self._memory, i) for i in range(lines)]
        self._timing = layout.views(plan, self._memory).timing

    def _make_engine(self, plan: layout.Layout) -> Any:
        """Return the backend that steps the environments."""
        attached = self._executor, plan, self._memory, self.action_space
        if self.reason:
            return Portable(*attached, self.info, self._seconds)
        from tfagents_batch.envs.processes.native_backend import Native

        options = self._seconds, self._waiting.hub, self._budget is not None
        return Native(self._library, *attached, *options)


def _raise_first(outcome: Outcome) -> None:
    if outcome.faults:
        raise step_batch.exception(outcome.faults)
    if outcome.stopped:
        raise Stopped("stop() ended the construction")
