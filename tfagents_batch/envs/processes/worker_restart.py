"""Replacement of worker processes that ended, within a budget.

Until they are replaced, the batch continues without their rows, or waits.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from tfagents_batch.envs.processes import launcher
from tfagents_batch.envs.processes.launcher import Worker
from tfagents_batch.envs.processes.native_backend import Native
from tfagents_batch.envs.processes.portable_backend import Portable
from tfagents_batch.envs.processes.restart_budget import RestartBudget
from tfagents_batch.envs.processes.supervisor import Ended
from tfagents_batch.envs.processes.workers import Workers
from tfagents_batch.envs.shared import failures, protocol
from tfagents_batch.envs.shared.failures import Context, Failure, Outcome, log_notes
from tfagents_batch.envs.worker import construction
from tfagents_batch.errors import EnvError

_JOIN_SECONDS = 1.0


def heal(workers: Workers, budget: RestartBudget, engine: Native | Portable) -> None:
    """Replace lost workers from now on: at once, or without a hub before commands."""
    replacements = Replacements(workers, budget)
    if isinstance(engine, Native):
        workers.end_restarts = Restarter(workers, replacements, engine).close
    else:
        workers.healing = replacements


class Replacements:
    """Thread-safe creation of replacement workers; a ``workers.Healing``."""

    def __init__(self, workers: Workers, budget: RestartBudget):
        self.budget = budget
        self._workers = workers

    def grant(self, worker: Worker, fault: Failure) -> bool:
        """Return whether a worker may be replaced; if not, the budget gives up.

        A worker that has not ended replaces its environments by itself.
        """
        if worker.exit_code is None:
            return self.budget.grant_in_worker(fault)
        full = worker.exit_code == protocol.EXIT_FULL  # no environment has failed
        full = full and self._workers.options["max_bytes"] is not None
        return self.budget.grant(fault, worker.rows, charge=not full)

    def replace(self, lost: Worker, fault: Failure, since: float) -> Worker | None:
        """Return a new worker that is ready for commands, in place of a lost one.

        ``since`` is the time of the failure on the monotonic clock. None is returned
        after a stop, or when the budget has given up.
        """
        with self.reporting(lost):
            while True:
                worker = Worker(lost.index, lost.rows)
                outcome = self._create(worker)
                if outcome.fine:
                    self.budget.record(fault, lost.rows, time.monotonic() - since)
                    return worker
                if outcome.stopped:
                    break
                if not self.budget.grant(outcome.faults[0], lost.rows):
                    break
        return None

    @contextlib.contextmanager
    def reporting(self, worker: Worker) -> Iterator[None]:
        """Give up after an exception; otherwise waits for the worker would not end."""
        try:
            yield
        except Ended:  # the environments are closed
            pass
        except BaseException as error:
            failure = EnvError(f"worker {worker.index} could not be replaced: {error}")
            failure.__cause__ = error
            self.budget.give_up(failure)

    def _create(self, worker: Worker) -> Outcome:
        """Start a worker and create its environments; end it if that fails."""
        healthy = False
        try:
            alone = self._workers.beside(worker)
            outcome = alone.create()
            if outcome.fine:
                known: dict[str, Any] = {"worker": worker.index, "phase": "construct"}
                facts = outcome.replies[worker.index]["facts"]
                for row, new in zip(worker.rows, facts, strict=True):
                    try:
                        construction.check_replacement(self._workers.facts[row], new)
                    except failures.Defect as error:
                        fault = failures.from_error(error, env=row, **known)
                        outcome.faults.append(fault)
            if outcome.fine:
                outcome = alone.share(self.budget.restarts(), takes_over=True)
            healthy = outcome.fine
            return outcome
        finally:
            if not healthy:
                worker.kill()
                self._workers.drop(worker)


class Restarter:
    """Watches workers in their supervisor's thread, while a hub commands them.

    Each lost worker is replaced in its own thread.
    """

    def __init__(self, workers: Workers, replacements: Replacements, engine: Native):
        self._workers = workers
        self._replacements = replacements
        self._hub = hub = engine.hub
        self._context: Context = engine.context
        self._lock = threading.Lock()
        self._lost: set[Worker] = set()
        self._threads: list[threading.Thread] = []
        supervisor = workers.supervisor

        def watch():
            supervisor.watch(hub.attention, self._handle_late)
            for worker in workers.workers:
                self._watch(worker)

        supervisor.call(watch)

    def close(self) -> None:
        """Wait for the threads; stepping has been stopped."""
        with self._lock:
            lost, threads = list(self._lost), list(self._threads)
        for worker in lost:
            worker.kill()  # otherwise its thread would wait for it
        deadline = time.monotonic() + _JOIN_SECONDS
        for thread in threads:
            if thread is not threading.current_thread():  # which may run the GC
                thread.join(max(deadline - time.monotonic(), 0))

    def _watch(self, worker: Worker) -> None:
        watch, guard = self._workers.supervisor.watch, self._guarded
        watch(worker.pidfd, functools.partial(guard, self._handle_end, worker))
        watch(worker.channel.fileno(), functools.partial(guard, self._read, worker))

    def _guarded(self, callback: Callable[[Worker], bool], worker: Worker) -> bool:
        with self._replacements.reporting(worker):
            return callback(worker)
        return False

    def _handle_end(self, worker: Worker) -> bool:
        self._read(worker)
        self._lose(worker, launcher.crash_failure)
        return False

    def _handle_late(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._hub.attention)
        for index in self._hub.late():
            self._lose(self._workers.workers[index], launcher.timeout_failure)
        return True

    def _read(self, worker: Worker) -> bool:
        """Read a worker's messages about its environments."""
        try:
            for header, payload in worker.inbox.read():
                if header.status not in (protocol.FAILED, protocol.NOTES):
                    self._workers.stale += 1
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
        if worker in self._lost or self._workers.stopping:
            return
        row = self._workers.row(worker)
        known = {}
        if row is not None and row in worker.rows:
            known = self._context(row)
        self._hub.notify("died", worker.index)
        self._workers.supervisor.unwatch(worker.pidfd)
        self._workers.supervisor.unwatch(worker.channel.fileno())
        phase = known.get("phase", "step")
        thread = threading.Thread(
            target=self._replace,
            args=(worker, functools.partial(how, worker, row, phase, lambda _: known)),
            name=f"tfagents_batch-restart-{worker.index}",
            daemon=True,
        )
        with self._lock:
            if self._workers.stopping:  # closing ends the worker
                return
            self._lost.add(worker)
            self._threads = [x for x in self._threads if x.is_alive()]
            self._threads.append(thread)
            thread.start()

    def _replace(self, worker: Worker, get_failure: Callable[[], Failure]) -> None:
        since = time.monotonic()
        with self._replacements.reporting(worker):
            fault = get_failure()
            self._workers.drop(worker)
            if self._replacements.grant(worker, fault):
                new = self._replacements.replace(worker, fault, since)
                if new is not None:
                    take_over = functools.partial(self._take_over, new)
                    self._workers.supervisor.call(take_over)

    def _take_over(self, worker: Worker) -> None:
        self._workers.workers[worker.index] = worker
        self._watch(worker)
        self._hub.notify("revive", worker.index)
