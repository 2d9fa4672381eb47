"""Replaces workers that are lost, while the batch goes on without their rows."""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfagents_batch.envs import crew as crews
from tfagents_batch.envs import (
    failures,
    layout,
    postmortem,
    protocol,
    replacement,
)
from tfagents_batch.envs.healing import Healer
from tfagents_batch.envs.launcher import Worker
from tfagents_batch.envs.outcome import Context, Fault
from tfagents_batch.envs.supervisor import Ended
from tfagents_batch.errors import EnvError

_LOG = logging.getLogger("tfagents_batch")
_JOIN_SECONDS = 0.5


class Nurse:
    """One thread per worker that is being replaced.

    With a hub the crew's supervisor watches the workers on behalf of the nurse;
    without one the crew tells of those it lost.

    Args:
      crew: of the workers.
      healer: grants restarts.
      plan: of the shared memory.
      memory: its descriptor; it is duplicated.
      facts: what is known of each environment, see ``stepper.inspect``.
      seconds: deadline of constructors, None for never.
      options: of ``crew.attach_payload``.

    Attributes:
      news: descriptor that is readable when a worker is ready or all is lost.
      hopeless: whether the healer granted no more.
    """

    def __init__(
        self,
        crew: crews.ProcessCrew,
        healer: Healer,
        plan: layout.Layout,
        memory: int,
        facts: Sequence[dict],
        seconds: float | None,
        options: dict,
    ):
        self.hopeless = False
        self.news = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._crew = crew
        self._healer = healer
        self._plan = plan
        self._memory = os.dup(memory)
        self._facts = facts
        self._seconds = seconds
        self._options = options
        self._closed = False
        self._active = 0  # threads
        self._hub: Any = None
        self._context: Context = lambda row: {}
        self._ready: collections.deque[Worker] = collections.deque()
        self._lock = threading.Lock()
        self._lost: set[Worker] = set()
        self._threads: list[threading.Thread] = []

    # ---- with a hub; in the supervisor's thread

    def drive(self, hub: Any) -> None:
        """Watch the workers of a hub, from any thread."""
        self._hub = hub
        supervisor = self._crew.supervisor

        def watch():
            supervisor.watch(hub.attention, self._late)
            for worker in self._crew.workers:
                self._attend(worker)

        supervisor.call(watch)

    def know(self, context: Context) -> None:
        """Say how to find out what is known of a row; before the first command."""
        self._context = context

    def _attend(self, worker: Worker) -> None:
        watch, guard = self._crew.supervisor.watch, self._guarded
        watch(worker.pidfd, functools.partial(guard, self._ended, worker))
        watch(worker.channel.fileno(), functools.partial(guard, self._heard, worker))

    def _guarded(self, callback: Callable[[Worker], bool], worker: Worker) -> bool:
        try:
            return callback(worker)
        except Exception as error:  # or a worker would be waited for in vain
            self._healer.give_up(_lost_track(worker, error))
            raise

    def _ended(self, worker: Worker) -> bool:
        self._heard(worker)
        self._leave(worker, postmortem.dead)
        return False

    def _late(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._hub.attention)
        for index in self._hub.late():
            self._leave(self._crew.workers[index], postmortem.late)
        return True

    def _heard(self, worker: Worker) -> bool:
        """Read what a worker says of its environments."""
        try:
            self._read(worker)
        except protocol.Malformed as error:
            self._leave(worker, functools.partial(postmortem.deaf, error=error))
            return False
        if worker.inbox.closed:
            self._leave(worker, postmortem.dead)
        return not worker.inbox.closed

    def _read(self, worker: Worker) -> None:
        for header, payload in worker.inbox.read():
            if header.status not in (protocol.FAILED, protocol.NOTES):
                self._crew.stale += 1
                continue
            for note in (payload or {}).get("notes", ()):
                _LOG.warning("%s", note)
            for failure in failures.told(payload):
                self.failed(Fault(failure, worker.index))

    def _leave(self, worker: Worker, how: Callable[..., Fault]) -> None:
        """Have the hub go on without a worker."""
        if worker in self._lost or self._crew.stopping:
            return
        row = self._crew.row(worker)
        known = self._context(row) if row in worker.rows else {}
        self._hub.died(worker.index)
        self._crew.supervisor.unwatch(worker.pidfd)
        self._crew.supervisor.unwatch(worker.channel.fileno())
        self.lost(worker, how, known.get("phase", "step"), known)

    # ---- in any case

    def failed(self, fault: Fault) -> None:
        """An environment failed; its worker replaces it in the next step."""
        self._healer.failed(fault)

    def lost(
        self, worker: Worker, how: Callable[..., Fault], phase: str | None, known: dict
    ) -> None:
        """Replace a worker, in a thread of its own.

        Args:
          worker: ended or to be ended; nobody else uses it any more.
          how: function of ``postmortem`` that finds out what happened.
          phase: what it was doing.
          known: of the row it was at.
        """
        thread = threading.Thread(
            target=self._work,
            args=(worker, how, phase, known),
            name=f"tfagents_batch-nurse-{worker.index}",
            daemon=True,
        )
        with self._lock:
            if self._crew.stopping:  # whoever closes the crew ends the worker
                return
            self._lost.add(worker)
            self._threads = [each for each in self._threads if each.is_alive()]
            self._threads.append(thread)
            self._active += 1
            try:
                thread.start()
            except BaseException:
                self._active -= 1
                raise

    def heard(self) -> None:
        """Make ``news`` unreadable until there are more."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.news)

    def ready(self) -> list[Worker]:
        """Workers to be used instead of those with the same index; without a hub."""
        self.heard()
        found = []
        while self._ready:
            found.append(self._ready.popleft())
        return found

    def close(self) -> None:
        """Wait for the threads; the crew was stopped before."""
        with self._lock:
            lost, threads = list(self._lost), list(self._threads)
        for worker in lost:
            if worker.pidfd >= 0:  # or its postmortem would take its time
                worker.kill()
        deadline = time.monotonic() + _JOIN_SECONDS
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0))
        for worker in self._ready:
            replacement.end(worker)
            self._drop(worker)
        with self._lock:
            self._closed = True
            self._release()

    def _release(self) -> None:
        """Close the descriptors when nobody uses them any more; under the lock."""
        if self._closed and self._active == 0:
            os.close(self._memory)
            os.close(self.news)

    def _work(self, worker, how, phase, known) -> None:
        try:
            self._replace(worker, how, phase, known)
        except (Ended, replacement.Stopped):
            pass
        except BaseException as error:  # nobody must wait for a replacement in vain
            self._healer.give_up(_lost_track(worker, error))
        finally:
            with self._lock:
                self._active -= 1
                self._release()

    def _replace(self, worker, how, phase, known) -> None:
        started = time.monotonic()
        try:
            row = self._crew.row(worker)
            first = fault = how(worker, row, phase, lambda row: known)
            replacement.end(worker)  # its rows have no owner until it is surely gone
        finally:
            worker.kill()
            self._drop(worker)
        full = worker.exit_code == protocol.EXIT_FULL  # is nobody's fault
        full = full and self._options["max_bytes"] is not None
        while True:
            charge = not full or fault is not first
            refusal = self._healer.grant(fault, worker.rows, charge)
            if refusal is not None:
                return self._healer.give_up(refusal)
            new = Worker(worker.index, worker.rows)
            try:
                fault = replacement.make(new, self._start, self._order(new))
                if fault is None:
                    away = time.monotonic() - started
                    self._healer.record(first, worker.rows, away)
                    return self._hand_over(new)
            except BaseException:
                self._drop(new)
                raise
            self._drop(new)

    def _drop(self, worker: Worker) -> None:
        """Free what is left of a worker that has ended."""
        supervisor, output = self._crew.supervisor, worker.output
        with contextlib.suppress(Ended):
            supervisor.call(lambda: supervisor.unwatch(output))
        worker.close()

    def _start(self, worker: Worker) -> None:
        self._crew.supervisor.call(lambda: self._crew.start(worker))

    def _order(self, worker: Worker) -> replacement.Order:
        everyone = range(len(self._facts))
        restarts = self._healer.restarts(everyone)
        options = {**self._options, "restarts": restarts, "takes_over": True}
        return replacement.Order(
            self._crew.constructors(worker),
            self._facts[worker.rows.start : worker.rows.stop],
            crews.construct_payload(),
            crews.attach_payload(self._plan, worker, **options),
            self._memory,
            self._seconds,
            self._crew.stop_descriptor,
        )

    def _hand_over(self, worker: Worker) -> None:
        if self._hub is None:
            self._ready.append(worker)
            os.eventfd_write(self.news, 1)  # open while this thread lives
            return

        def take():
            self._crew.workers[worker.index] = worker
            self._attend(worker)
            self._hub.revive(worker.index)

        self._crew.supervisor.call(take)

    def give_up(self, tell: Callable[[Exception], Any], error: Exception) -> None:
        """End all waits: the healer granted no more; ``tell`` is told why."""
        self.hopeless = True
        tell(error)
        with self._lock:
            if not self._closed or self._active:
                os.eventfd_write(self.news, 1)


def _lost_track(worker: Worker, error: BaseException) -> EnvError:
    failure = EnvError(f"worker {worker.index} could not be replaced: {error}")
    failure.__cause__ = error
    return failure
