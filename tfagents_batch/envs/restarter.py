"""Has workers of a native hub replaced, while the program goes on."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from tfagents_batch.envs import failures, postmortem, protocol
from tfagents_batch.envs.launcher import Worker
from tfagents_batch.envs.outcome import Context, Fault, log_notes
from tfagents_batch.envs.processes import ProcessExecutor
from tfagents_batch.envs.replacement import Replacements, lost_track
from tfagents_batch.envs.supervisor import Ended

_JOIN_SECONDS = 1.0


class Restarter:
    """Watches workers in the supervisor's thread, replaces each in a thread of its own.

    Args:
      executor: of the workers.
      hub: that gives them commands.
      replacements: makes others.
      context: what is known of a row.
    """

    def __init__(
        self,
        executor: ProcessExecutor,
        hub: Any,
        replacements: Replacements,
        context: Context,
    ):
        self._executor = executor
        self._hub = hub
        self._replacements = replacements
        self._context = context
        self._lock = threading.Lock()
        self._lost: set[Worker] = set()
        self._threads: list[threading.Thread] = []
        supervisor = executor.supervisor

        def watch():
            supervisor.watch(hub.attention, self._late)
            for worker in executor.workers:
                self._attend(worker)

        supervisor.call(watch)

    def close(self) -> None:
        """Stop the workers and wait for the threads."""
        self._executor.stop()
        with self._lock:
            lost, threads = list(self._lost), list(self._threads)
        for worker in lost:
            if worker.pidfd >= 0:  # or its postmortem would take its time
                worker.kill()
        deadline = time.monotonic() + _JOIN_SECONDS
        for thread in threads:
            if thread is not threading.current_thread():  # which collects the pool
                thread.join(max(deadline - time.monotonic(), 0))

    def _attend(self, worker: Worker) -> None:
        watch, guard = self._executor.supervisor.watch, self._guarded
        watch(worker.pidfd, functools.partial(guard, self._ended, worker))
        watch(worker.channel.fileno(), functools.partial(guard, self._heard, worker))

    def _guarded(self, callback: Callable[[Worker], bool], worker: Worker) -> bool:
        try:
            return callback(worker)
        except Exception as error:  # or a worker would be waited for in vain
            self._replacements.budget.give_up(lost_track(worker, error))
            raise

    def _ended(self, worker: Worker) -> bool:
        self._heard(worker)
        self._leave(worker, postmortem.dead)
        return False

    def _late(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._hub.attention)
        for index in self._hub.late():
            self._leave(self._executor.workers[index], postmortem.late)
        return True

    def _heard(self, worker: Worker) -> bool:
        """Read what a worker says of its environments."""
        try:
            for header, payload in worker.inbox.read():
                if header.status not in (protocol.FAILED, protocol.NOTES):
                    self._executor.requests.stale += 1
                    continue
                log_notes(payload)
                for failure in failures.told(payload):  # replaced in the next step
                    self._replacements.budget.failed(Fault(failure, worker.index))
        except protocol.Malformed as error:
            self._leave(worker, functools.partial(postmortem.deaf, error=error))
            return False
        if worker.inbox.closed:
            self._leave(worker, postmortem.dead)
        return not worker.inbox.closed

    def _leave(self, worker: Worker, how: Callable[..., Fault]) -> None:
        """Have the hub go on without a worker, and another one made."""
        if worker in self._lost or self._executor.stopping:
            return
        row = self._executor.requests.row(worker)
        known = self._context(row) if row in worker.rows else {}
        self._hub.died(worker.index)
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
            if self._executor.stopping:  # whoever closes the pool ends the worker
                return
            self._lost.add(worker)
            self._threads = [each for each in self._threads if each.is_alive()]
            self._threads.append(thread)
            thread.start()

    def _replace(self, worker: Worker, find_out: Callable[[], Fault]) -> None:
        since = time.monotonic()
        try:
            fault = find_out()
            self._executor.drop(worker)
            if self._replacements.grant(worker, fault):
                arguments = self._executor, worker, fault, since
                new = self._replacements.replace(*arguments)
                if new is not None:
                    self._take_over(new)
        except Ended:
            pass
        except BaseException as error:  # nobody must wait for a replacement in vain
            self._replacements.budget.give_up(lost_track(worker, error))

    def _take_over(self, worker: Worker) -> None:
        def take():
            self._executor.workers[worker.index] = worker
            self._attend(worker)
            self._hub.revive(worker.index)

        self._executor.supervisor.call(take)
