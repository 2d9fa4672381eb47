"""Batch of environments as NumPy arrays, in worker processes or this process.

``reset`` and ``step`` return even after a failure, because a compiled program may call
them. A failed row repeats its last valid observation, with reward 0 and both ``first``
and ``truncated`` true. ``check`` raises the failure. With ``on_fault="restart"`` the
environment is replaced instead, and ``events`` reports it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
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
    actions,
    arguments,
    cpus,
    layout,
    same_spaces,
    step_batch,
)
from tfagents_batch.envs.shared.failures import Outcome
from tfagents_batch.envs.vector.batch_stepper import Steppable
from tfagents_batch.envs.worker import stepper
from tfagents_batch.errors import Stopped, UserError

RAISE, RESTART = "raise", "restart"  # on_fault
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
      construct_seconds, reset_seconds, step_seconds: deadlines of a worker's reply;
        None waits forever. In this process there are none.
      on_fault: "raise" fails the whole batch after a failure; "restart" fails only the
        affected rows and replaces their environments.
      max_restarts: restarts of one environment; its next failure is raised.
      restart_period_seconds: a failure less than this time after a restart of the same
        environment is raised.
      groups: number of groups for ``send`` and ``receive``, a divisor of the numbers of
        environments and of workers.
      finite_check: reaction to NaN and infinity in observations and rewards: "raise"
        makes them a failure; "replace" takes the numbers of the previous observation,
        or 0; "truncate" ends the episode without that step; "off" accepts them.
      strict_bounds: whether observations outside the bounds of a Box are failures;
        otherwise they are counted in spot checks and logged once.
      max_worker_mb: limit of resident memory in megabytes (2**20 bytes). A worker above
        it ends after an episode; "restart" replaces it without using a restart.
      info_keys: ``{key: dtype}`` of numbers to copy from the environments' infos;
        float32, int32 or bool. A missing number is NaN, 0 or false.
      worker_variables: environment variables of worker processes.
      pin_workers: whether each worker, with its child processes, is pinned to one core;
        None pins if there are as many workers as cores.
      backend: "auto", "native" or "portable", see ``backends.choose``.

    Attributes:
      num_envs, num_workers, num_groups: sizes.
      observation_space, action_space: spaces of one environment.
      info: ``{column: dtype}``.
      max_episode_steps: the environments' common time limit, None if unknown.
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
        *,
        construct_seconds: float | None = 120.0,
        reset_seconds: float | None = 300.0,
        step_seconds: float | None = 60.0,
        on_fault: str = RAISE,
        max_restarts: int = restart_budget.MAX_RESTARTS,
        restart_period_seconds: float = restart_budget.PERIOD_SECONDS,
        groups: int = 1,
        finite_check: str = stepper.RAISE,
        strict_bounds: bool = False,
        max_worker_mb: float | None = None,
        info_keys: Mapping[str, str] | None = None,
        worker_variables: Mapping[str, str] | None = None,
        pin_workers: bool | None = None,
        backend: str = backends.PORTABLE,
    ):
        if isinstance(constructors, Steppable):
            self.num_envs, num_workers = constructors.num_envs, 0
        else:
            constructors = list(constructors)
            arguments.callables(constructors)
            self.num_envs = len(constructors)
        sizes = self.num_envs, groups
        self.num_workers = arguments.worker_count(num_workers, *sizes)
        self.info = {**layout.STATISTICS, **arguments.info_columns(info_keys)}
        self.num_groups = arguments.groups(groups, self.num_envs, self.num_workers)
        arguments.one_of("on_fault", on_fault, (RAISE, RESTART))
        arguments.one_of("finite_check", finite_check, stepper.FINITE_CHECKS)
        arguments.at_least("max_restarts", max_restarts, 0)
        arguments.at_least("restart_period_seconds", restart_period_seconds, 0)
        arguments.at_least("construct_seconds", construct_seconds, 0, or_none=True)
        arguments.at_least("reset_seconds", reset_seconds, 0, or_none=True)
        arguments.at_least("step_seconds", step_seconds, 0, or_none=True)
        arguments.at_least("max_worker_mb", max_worker_mb, 1, or_none=True)
        variables = arguments.variables(worker_variables)
        self._library, self.reason = backends.choose(backend, self.num_workers)
        backends.refuse_groups(self.num_groups, self.reason)
        self._budget: RestartBudget | None = None
        if on_fault == RESTART:
            limits = self.num_envs, max_restarts, restart_period_seconds
            self._budget = RestartBudget(*limits)
        self._reported_lost = np.zeros(self.num_envs, np.int64)
        self._stragglers = Stragglers()
        self._seconds = (reset_seconds, step_seconds)
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
        self._waiting = cpus.choose(self.num_workers, cores, pin_workers)
        options: dict[str, Any] = {
            "finite_check": finite_check,
            "strict": bool(strict_bounds),
            "max_bytes": None if max_worker_mb is None else int(max_worker_mb * 2**20),
            "poll_microseconds": self._waiting.worker,
            "cores": self._waiting.cores,
            "restarts": None if self._budget is None else [0] * self.num_envs,
        }
        if self.num_workers:  # the module needs Linux
            from tfagents_batch.envs.processes.worker_group import (
                ProcessExecutor,
            )

            sizes = self.num_workers, self.num_groups
            self._executor: Any = ProcessExecutor(constructors, *sizes, variables)
        else:
            self._executor = LocalExecutor(constructors, self._budget)
        self._closing = contextlib.ExitStack()
        self._closing.callback(self._executor.close)
        self._finalizer = weakref.finalize(self, self._closing.close)
        try:
            self._construct(constructors, construct_seconds, options)
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
        wanted = self.num_workers > 0 and backend != backends.PORTABLE
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
        self._words, self._memory, self._timing = [], None, None
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
        return {
            "env/action_clipped_fraction": new["clipped"] / max(new["total"], 1),
            "env/observation_out_of_bounds": float(new["outside"]),
            "env/not_finite": float(new["not_finite"]),
            **{name: float(new[name]) for name in self._executor.counters()},
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
        found, lost = self._budget.events(), self.engine.lost()
        for event in found:
            if event["event"] != restart_budget.RESTARTED:
                continue
            rows = event["envs"]
            event["lost_steps"] = int((lost - self._reported_lost)[rows].sum())
            self._reported_lost[rows] = lost[rows]
        return found

    def _count(self) -> dict[str, float]:
        """Return the counters; after closing, their last values."""
        words = self._words
        if words:
            self._counted = {
                "outside": sum(each[layout.OUT_OF_BOUNDS] for each in words),
                "not_finite": sum(each[layout.NOT_FINITE] for each in words),
                **self._executor.counters(),
            }
        return self._counted

    def _construct(self, constructors, seconds, options: dict[str, Any]) -> None:
        outcome = self._executor.construct(seconds)
        _raise_first(outcome)
        facts = [
            x for i in sorted(outcome.replies) for x in outcome.replies[i]["facts"]
        ]
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
        descriptor = -1
        if self.num_workers:
            descriptor, self._memory = layout.allocate(plan)
        else:
            self._memory = bytearray(plan.size)
        try:
            options["native"] = not self.reason
            attached = self._executor.attach(plan, self._memory, descriptor, options)
            _raise_first(attached)
            self.engine = self._make_engine(plan, descriptor)
            self.handle = self.engine.handle
            if self._budget is not None:
                self._budget.give_up = self.engine.give_up
                if self.num_workers:
                    recipe = constructors, facts, plan, seconds, options
                    self._replace_lost(*recipe)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        attached.log_notes()
        self._words = [layout.control(self._memory, i) for i in range(lines)]
        self._timing = layout.views(plan, self._memory).timing

    def _replace_lost(self, *recipe: Any) -> None:
        """Replace lost workers from now on."""
        from tfagents_batch.envs.processes.worker_restart import (
            Replacements,
            Restarter,
        )

        replacements = Replacements(self._budget, *recipe)
        if self.handle is None:
            self._executor.replace_lost(replacements)
            return
        hub, context = self.engine.hub, self.engine.context
        restarter = Restarter(self._executor, hub, replacements, context)
        self._closing.callback(restarter.close)

    def _make_engine(self, plan: layout.Layout, descriptor: int) -> Any:
        arrays = layout.views(plan, self._memory)
        if self.reason:
            learner = layout.control(self._memory, plan.num_workers)
            known = self.action_space, self.info, self._seconds
            return Portable(self._executor, arrays, learner, *known)
        from tfagents_batch.envs.native.hub import Hub
        from tfagents_batch.envs.processes.native_backend import Native

        writer = actions.ActionWriter(self.action_space, arrays.action)
        rows = [worker.rows.start for worker in self._executor.workers]
        replaces = self._budget is not None
        hub = Hub(
            self._library,
            plan,
            descriptor,
            writer,
            [*rows, self.num_envs],
            self._seconds,
            self._executor.requests.sequence,
            self._waiting.hub,
            replaces,
        )
        self._executor.drive(hub, report_ends=not replaces)
        return Native(self._executor, hub, replaces, arrays, self.action_space, writer)


def _raise_first(outcome: Outcome) -> None:
    if outcome.faults:
        raise step_batch.exception(outcome.faults)
    if outcome.stopped:
        raise Stopped("stop() ended the construction")
