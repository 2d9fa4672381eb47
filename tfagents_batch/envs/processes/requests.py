"""Requests to worker processes, and the wait for their replies.

Every wait ends with the first of these: all replies, a crash, a deadline, a stop.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tfagents_batch.envs.processes import launcher
from tfagents_batch.envs.processes.launcher import Worker
from tfagents_batch.envs.shared import failures, layout, protocol
from tfagents_batch.envs.shared.failures import Context, Failure, Outcome, log_notes

_GRACE_SECONDS = 1.0  # for the other workers after a failure
SEND_SECONDS = 30.0  # for requests without a deadline


class Request(NamedTuple):
    """Pending request to a worker."""

    worker: Worker
    code: int  # command of ``protocol``
    sequence: int  # sequence number
    deadline: float  # on the monotonic clock, in seconds


class Requests:
    """Requests to workers; only one thread at a time may use an instance.

    Args:
      stop: descriptor that becomes readable when all waits must end.

    Attributes:
      stopping: whether a stop was requested.
      sequence: number of the last request.
      stale: replies with another number than expected; they are dropped.
      words: control words of every worker, once there is shared memory.
      tolerate: function of worker and failure that returns whether waiting continues;
        if not, the other workers have one second to reply.
    """

    def __init__(self, stop: int):
        self.stopping = False
        self.sequence = 0
        self.stale = 0
        self.words: Sequence[Any] = ()
        self.tolerate: Callable[[Worker, Failure], bool] = lambda worker, fault: False
        self._stop = stop
        self._poll = select.poll()
        self._poll.register(stop, select.POLLIN)
        # By descriptor: the worker, and whether it is its control socket.
        self._known: dict[int, tuple[Worker, bool]] = {}
        self._pending: dict[int, Request] = {}  # by worker
        self._outcome = Outcome()  # of the current request
        self._context: Context = lambda row: {}
        self._failed = False  # if so, waits are short

    def add(self, worker: Worker) -> None:
        """Accept replies of a started worker."""
        for descriptor in (worker.channel.fileno(), worker.pidfd):
            self._poll.register(descriptor, select.POLLIN)
            self._known[descriptor] = worker, descriptor != worker.pidfd

    def ask(
        self,
        workers: Iterable[Worker],
        code: int,
        limits: Mapping[int, float | None],
        payload: Callable[[Worker], Any] | None = None,
        context: Context = lambda row: {},
    ) -> Outcome:
        """Send a request to workers and wait for the replies.

        Args:
          workers: receivers.
          code: command of ``protocol``.
          limits: deadline in seconds by worker; None waits forever.
          payload: function that returns the payload for a worker, or None.
          context: returns known fields of the failure of a row, if its worker ends.
        """
        if self.stopping:
            return self._collect()
        self._context = context
        self.sequence = sequence = self.sequence + 1
        now = time.monotonic()
        for worker in workers:
            index = worker.index
            if self.words:
                self.words[index][layout.COMMAND] = code
                self.words[index][layout.COMMAND_SEQUENCE] = sequence & 0xFFFFFFFF
            data = None if payload is None else payload(worker)
            frame = protocol.pack(code, sequence, data, first_row=worker.rows.start)
            limit = limits[index]
            deadline = float("inf") if limit is None else now + limit
            self._pending[index] = Request(worker, code, sequence, deadline)
            # If sending fails, the wait reports the reason.
            with contextlib.suppress(OSError):
                worker.send(frame, limit or SEND_SECONDS)
        self._wait()
        return self._collect()

    def construct(
        self,
        workers: Sequence[Worker],
        constructors: Sequence[Callable[[], Any]],
        seconds: float | None,
    ) -> Outcome:
        """Make workers create their environments from the batch's ``constructors``.

        Returns:
          replies ``{"facts": [...]}`` with one entry per environment.

        Raises:
          UserError: for a constructor that cannot be pickled.
        """
        path, pythonpath = launcher.search_path(), os.environ.get("PYTHONPATH")

        def payload(worker: Worker) -> dict[str, Any]:
            count = len(worker.rows)
            return {"path": path, "pythonpath": pythonpath, "count": count}

        inherited = launcher.inherited()
        for worker in workers:
            part = constructors[worker.rows.start : worker.rows.stop]
            worker.store(launcher.pickled(part, worker.rows.start, inherited))
        limits = {worker.index: seconds for worker in workers}
        return self.ask(workers, protocol.CONSTRUCT, limits, payload)

    def attach(
        self,
        workers: Sequence[Worker],
        plan: layout.Layout,
        options: dict[str, Any],
        takes_over: bool = False,
    ) -> Outcome:
        """Make workers map the shared memory.

        Args:
          workers: receivers.
          plan: layout of the memory.
          options: ``EnvOptions.for_workers``; ``native``, whether a hub sends the
            commands; ``poll_microseconds`` and ``cores``, see ``cpus``; ``restarts``,
            number of restarts of each environment, None if they are not replaced.
          takes_over: whether to continue the rows of another worker, instead of
            waiting for a reset.
        """

        def payload(worker: Worker) -> dict[str, Any]:
            restarts = options["restarts"]
            counts = restarts and restarts[worker.rows.start : worker.rows.stop]
            which = {"layout": plan.to_json(), "worker": worker.index}
            return {**options, **which, "restarts": counts, "takes_over": takes_over}

        limits = dict.fromkeys((worker.index for worker in workers), SEND_SECONDS)
        return self.ask(workers, protocol.ATTACH, limits, payload)

    def explain(self, requests: Sequence[Request], context: Context) -> Outcome:
        """Collect the failures of requests that the hub sent."""
        self._context = context
        self._pending = {request.worker.index: request for request in requests}
        self._wait(stoppable=False)
        return self._collect()

    def listen(self, context: Context) -> list[Failure]:
        """Read unrequested messages of workers and check that they run."""
        self._context = context
        while not self.stopping and (ready := self._poll.poll(0)):
            self._read(ready)
        return self._collect().faults

    def row(self, worker: Worker) -> int | None:
        """Return the row that a worker steps, or ``layout.NO_ROW``."""
        if self.words:
            return self.words[worker.index][layout.ROW]
        return worker.row

    def _collect(self) -> Outcome:
        self._pending.clear()  # only a stop leaves some
        outcome, self._outcome = self._outcome, Outcome()
        outcome.stopped = self.stopping
        return outcome

    def _wait(self, stoppable: bool = True) -> None:
        """Wait until all have replied, failed or timed out, or until a stop."""
        pending = self._pending
        while pending and not (self.stopping and stoppable):
            milliseconds = None
            earliest = min(request.deadline for request in pending.values())
            if earliest != float("inf"):
                now = time.monotonic()
                if earliest <= now:
                    self._expire([x for x in pending.values() if x.deadline <= now])
                    continue
                milliseconds = (earliest - now) * 1000 + 1
            self._read(self._poll.poll(milliseconds))
            if self._failed:
                grace = time.monotonic() + _GRACE_SECONDS
                for index, request in pending.items():
                    deadline = min(request.deadline, grace)
                    pending[index] = request._replace(deadline=deadline)

    def _read(self, ready: Sequence[tuple[int, int]]) -> None:
        """Read from ready descriptors, then handle ended workers."""
        dead = []
        for descriptor, _ in ready:
            if descriptor == self._stop:
                self.stopping = True
                self._poll.unregister(descriptor)
            if descriptor not in self._known:
                continue
            worker, is_reply = self._known[descriptor]
            if is_reply:
                try:
                    self._take(worker, worker.inbox.read())
                except protocol.Malformed as error:
                    how = functools.partial(launcher.protocol_failure, error=error)
                    self._end(worker, how)
                    continue
            if not is_reply or worker.inbox.closed:
                dead.append(worker)
        for worker in dict.fromkeys(dead):
            if worker.channel.fileno() in self._known:
                self._end(worker, launcher.crash_failure)  # after its last message

    def _take(self, worker: Worker, frames: Sequence) -> None:
        """Handle a worker's frames: stale ones, progress or the reply."""
        for header, payload in frames:
            request = self._pending.get(worker.index)
            if request is None or header.sequence != request.sequence:
                if header.status == protocol.NOTES:  # from a step of the hub
                    log_notes(payload)
                else:
                    self.stale += 1
                continue
            worker.row = None
            if header.status == protocol.PROGRESS:
                worker.row = header.first_row
                continue
            del self._pending[worker.index]
            if payload is None:
                continue
            self._outcome.replies[worker.index] = payload
            for failure in failures.from_payload(payload, worker.index):
                self._record(worker, failure, [failure.env])

    def _expire(self, late: Sequence[Request]) -> None:
        """End workers that timed out, and record why."""
        after_failure = self._failed
        for worker, *_ in late:
            if after_failure:  # another worker has failed, not they
                del self._pending[worker.index]
                self._outcome.lost.update(worker.rows)
            else:
                self._end(worker, launcher.timeout_failure)

    def _end(self, worker: Worker, how: Callable[..., Failure]) -> None:
        """Stop waiting for a worker that has ended or will be ended."""
        request = self._pending.pop(worker.index, None)
        for descriptor in (worker.channel.fileno(), worker.pidfd):
            del self._known[descriptor]
            self._poll.unregister(descriptor)
        phase = protocol.NAMES[request.code] if request else None
        fault = how(worker, self.row(worker), phase, self._context)
        self._record(worker, fault, worker.rows)

    def _record(self, worker: Worker, fault: Failure, rows: Iterable[int]) -> None:
        self._outcome.lost.update(rows)
        if not self.tolerate(worker, fault):
            self._outcome.faults.append(fault)
            self._failed = True
