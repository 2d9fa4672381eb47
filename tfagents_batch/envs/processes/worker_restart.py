"""Replacement of worker processes that ended, within a budget.

Until they are replaced, the batch continues without their rows, or waits.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfagents_batch.envs.processes import launcher, requests
from tfagents_batch.envs.processes.launcher import Worker
from tfagents_batch.envs.processes.restart_budget import RestartBudget
from tfagents_batch.envs.processes.supervisor import Ended
from tfagents_batch.envs.shared import failures, protocol, same_spaces
from tfagents_batch.envs.shared.failures import Context, Failure, Outcome, log_notes
from tfagents_batch.errors import EnvError

_JOIN_SECONDS = 1.0


class Replacements:
    """Thread-safe creation of replacement workers for a ``ProcessExecutor``."""

    def __init__(self, executor: Any, budget: RestartBudget):
        self.budget = budget
        self._executor = executor

    def grant(self, worker: Worker, fault: Failure) -> bool:
        """Return whether a worker may be replaced; if not, the budget gives up."""
        full = worker.exit_code == protocol.EXIT_FULL  # no environment has failed
        full = full and self._executor.options["max_bytes"] is not None
        return self.budget.grant(fault, worker.rows, charge=not full)

    def replace(self, lost: Worker, fault: Failure, since: float) -> Worker | None:
        """Create a replacement worker.

        Args:
          lost: worker to replace, as granted.
          fault: failure that ended it.
          since: time of the failure on the monotonic clock.

        Returns:
          worker that is ready for commands; None after a stop, or when the budget
          has given up.
        """
        try:
            while True:
                worker = Worker(lost.index, lost.rows)
                outcome = self._create(worker)
                if outcome.fine:
                    self.budget.record(fault, lost.rows, time.monotonic() - since)
                    return worker
                if outcome.stopped:
                    return None
                if not self.budget.grant(outcome.faults[0], lost.rows):
                    return None
        except Ended:  # the pool is closed
            return None
        except BaseException as error:  # otherwise waits for it would not end
            self.budget.give_up(_replacement_error(lost, error))
            return None

    def _create(self, worker: Worker) -> Outcome:
        """Start a worker and create its environments; end it if that fails."""
        executor, healthy = self._executor, False
        try:
            executor.start(worker)
            setup = requests.Requests(executor.stop_descriptor)
            setup.add(worker)
            recipe = executor.constructors, executor.seconds
            outcome = setup.construct([worker], *recipe)
            if outcome.fine:
                facts = outcome.replies[worker.index]["facts"]
                outcome.faults += self._differences(worker, facts)
            if outcome.fine:
                options = {**executor.options, "restarts": self.budget.restarts()}
                plan = executor.plan
                outcome = setup.attach([worker], plan, options, takes_over=True)
            healthy = outcome.fine
            return outcome
        finally:
            if not healthy:
                worker.kill()
                executor.drop(worker)

    def _differences(self, worker: Worker, facts: Sequence[dict]) -> list[Failure]:
        """Return a failure if a replacement has other spaces than its predecessor."""
        for row, new in zip(worker.rows, facts, strict=True):
            try:
                same_spaces.check_replacement(self._executor.facts[row], new)
            except failures.Defect as error:
                known = {"env": row, "worker": worker.index, "phase": "construct"}
                return [failures.from_error(error, **known)]
        return []


class Restarter:
    """Watches the workers of a ``ProcessExecutor`` in its supervisor's thread.

    Each lost worker is replaced in its own thread.

    Args:
      executor: the executor.
      replacements: creates the new workers.
      engine: ``Native``, whose hub commands the workers.
    """

    def __init__(self, executor: Any, replacements: Replacements, engine: Any):
        self._executor = executor
        self._replacements = replacements
        self._hub = hub = engine.hub
        self._context: Context = engine.context
        self._lock = threading.Lock()
        self._lost: set[Worker] = set()
        self._threads: list[threading.Thread] = []
        supervisor = executor.supervisor

        def watch():
            supervisor.watch(hub.attention, self._handle_late)
            for worker in executor.workers:
                self._watch(worker)

        supervisor.call(watch)

    def close(self) -> None:
        """Wait for the threads; the executor has been stopped."""
        with self._lock:
            lost, threads = list(self._lost), list(self._threads)
        for worker in lost:
            worker.kill()  # otherwise its thread would wait for it
        deadline = time.monotonic() + _JOIN_SECONDS
        for thread in threads:
            if thread is not threading.current_thread():  # which may run the GC
                thread.join(max(deadline - time.monotonic(), 0))

    def _watch(self, worker: Worker) -> None:
        watch, guard = self._executor.supervisor.watch, self._guarded
        watch(worker.pidfd, functools.partial(guard, self._handle_end, worker))
        watch(
            worker.channel.fileno(),
            functools.partial(guard, self._read, worker),
        )

    def _guarded(self, callback: Callable[[Worker], bool], worker: Worker) -> bool:
        try:
            return callback(worker)
        except Exception as error:  # otherwise waits for the worker would not end
            self._replacements.budget.give_up(_replacement_error(worker, error))
            raise

    def _handle_end(self, worker: Worker) -> bool:
        self._read(worker)
        self._lose(worker, launcher.crash_failure)
        return False

    def _handle_late(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._hub.attention)
        for index in self._hub.late():
            self._lose(self._executor.workers[index], launcher.timeout_failure)
        return True

    def _read(self, worker: Worker) -> bool:
        """Read a worker's messages about its environments."""
        try:
            for header, payload in worker.inbox.read():
                if header.status not in (protocol.FAILED, protocol.NOTES):
                    self._executor.requests.stale += 1
                    continue
                log_notes(payload)
                for failure in failures.from_payload(payload, worker.index):
                    self._replacements.budget.grant_in_worker(failure)
        except protocol.Malformed as error:
            how = functools.partial(launcher.protocol_failure, error=error)
            self._lose(worker, how)
            return False
        if worker.inbox.closed:
            self._lose(worker, launcher.crash_failure)
        return not worker.inbox.closed

    def _lose(self, worker: Worker, how: Callable[..., Failure]) -> None:
        """Let the hub continue without a worker; start a thread that replaces it."""
        if worker in self._lost or self._executor.stopping:
            return
        row = self._executor.requests.row(worker)
        known = self._context(row) if row in worker.rows else {}
        self._hub.notify("died", worker.index)
        self._executor.supervisor.unwatch(worker.pidfd)
        self._executor.supervisor.unwatch(worker.channel.fileno())
        phase = known.get("phase", "step")
        thread = threading.Thread(
            target=self._replace,
            args=(worker, functools.partial(how, worker, row, phase, lambda _: known)),
            name=f"tfagents_batch-restart-{worker.index}",
            daemon=True,
        )
        with self._lock:
            if self._executor.stopping:  # closing the pool ends the worker
                return
            self._lost.add(worker)
            self._threads = [x for x in self._threads if x.is_alive()]
            self._threads.append(thread)
            thread.start()

    def _replace(self, worker: Worker, get_failure: Callable[[], Failure]) -> None:
        since = time.monotonic()
        try:
            fault = get_failure()
            self._executor.drop(worker)
            if self._replacements.grant(worker, fault):
                new = self._replacements.replace(worker, fault, since)
                if new is not None:
                    self._take_over(new)
        except Ended:
            pass
        except BaseException as error:  # otherwise waits for it would not end
            self._replacements.budget.give_up(_replacement_error(worker, error))

    def _take_over(self, worker: Worker) -> None:
        def take():
            self._executor.workers[worker.index] = worker
            self._watch(worker)
            self._hub.notify("revive", worker.index)

        self._executor.supervisor.call(take)


def _replacement_error(worker: Worker, error: BaseException) -> EnvError:
    """Return the error for a worker that could not be replaced."""
    failure = EnvError(f"worker {worker.index} could not be replaced: {error}")
    failure.__cause__ = error
    return failure
