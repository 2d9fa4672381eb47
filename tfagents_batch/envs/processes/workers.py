"""The worker processes of a batch: start, commands and their replies, end.

Every wait ends with the first of these: all replies, a crash, a deadline, a stop.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tfagents_batch.envs.native.hub import Hub
from tfagents_batch.envs.processes import launcher
from tfagents_batch.envs.processes.launcher import Worker
from tfagents_batch.envs.processes.supervisor import Ended, Supervisor
from tfagents_batch.envs.shared import failures, layout, protocol
from tfagents_batch.envs.shared.failures import Context, Failure, Outcome, log_notes
from tfagents_batch.envs.worker import inherited

_LOG = logging.getLogger("tfagents_batch")
_CLOSE_SECONDS = 0.9  # before SIGKILL
_FRAME_SECONDS = 5.0  # for the text of a failure after its reply
_GRACE_SECONDS = 1.0  # for the other workers after a failure
_SEND_SECONDS = 30.0  # for requests without a deadline


class Request(NamedTuple):
    """Pending request to a worker."""

    worker: Worker
    code: int  # command of ``protocol``
    sequence: int
    deadline: float  # on the monotonic clock, in seconds


class Healing(Protocol):
    """Replacement of failed workers, see ``worker_restart.Replacements``."""

    def grant(self, worker: Worker, fault: Failure) -> bool:
        """Return whether failed environments are replaced."""
        ...

    def replace(self, lost: Worker, fault: Failure, since: float) -> Worker | None:
        """Return a new worker; None if there will be none."""
        ...


class Workers:
    """Worker processes, each with contiguous rows of the batch.

    One thread at a time sends commands; any thread may stop or close.

    Args:
      constructors: one per environment.
      num_workers: number of processes, at most one per environment.
      num_groups: divisor of the numbers of workers and of environments.
      variables: additional environment variables of the workers.
    """

    owner = None  # the processes run whichever thread calls
    supervisor: Supervisor  # the thread that starts the processes
    options: dict[str, Any]  # see ``attach``

    def __init__(
        self,
        constructors: Sequence[Callable[[], Any]],
        num_workers: int,
        num_groups: int,
        variables: Mapping[str, str],
    ):
        blocks = split(len(constructors), num_workers, num_groups)
        self.workers = [Worker(index, rows) for index, rows in enumerate(blocks)]
        self.facts: list[dict] = []  # of each environment, see ``inspect``
        self.memory = self._stop = -1  # shared memory that workers inherit; eventfd
        self.words: Sequence[memoryview] = ()  # control words, once there is memory
        self.sequence = 0  # number of the last request
        self.stale = 0  # replies with another number, which are dropped
        self.stopping = False
        # Replaces lost workers before the next command; None if failures are raised, or
        # a hub continues without these workers.
        self.healing: Healing | None = None
        self.end_restarts: Callable[[], None] = lambda: None  # before workers end
        self._process = os.getpid()
        self._constructors = constructors
        self._construct_seconds: float | None = None
        self._variables = variables
        self._hub: Hub | None = None
        self._busy = threading.Lock()  # held while descriptors are in use
        self._closed = False  # the workers of that time have ended
        self._lost: dict[int, tuple[Failure, float]] = {}  # worker: failure, time

    def construct(self, seconds: float | None) -> Outcome:
        """Start the workers and create the environments, see ``create``."""
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.memory = os.memfd_create("tfagents_batch", os.MFD_CLOEXEC)
        self._construct_seconds = seconds
        self._listen()
        self.supervisor = Supervisor()
        for worker in self.workers:
            self._start(worker)
        with self._in_use():
            outcome = self.create()
        if outcome.fine:
            replies = (outcome.replies[worker.index] for worker in self.workers)
            self.facts = [fact for reply in replies for fact in reply["facts"]]
        return outcome

    def attach(self, plan: layout.Layout, options: dict) -> tuple[Any, Outcome]:
        """Allocate the shared memory, and make the workers map it.

        The options are those of ``EnvOptions.for_workers``; ``native``, whether a hub
        sends the commands; ``poll_microseconds`` and ``cores``, see ``cpus``; and
        ``restarts`` of each environment, None if they are not replaced.
        """
        memory = layout.allocate(plan, self.memory)
        self.words = [layout.control(memory, worker.index) for worker in self.workers]
        self.options = {**options, "layout": plan.to_json()}
        with self._in_use():
            return memory, self.share(options["restarts"])

    def beside(self, worker: Worker) -> Workers:
        """Start another worker; return what sends only it requests, in any thread."""
        other = copy.copy(self)
        other.workers, other.words, other.healing = [worker], (), None
        other._listen()
        other._start(worker)
        return other

    def create(self) -> Outcome:
        """Make the started workers create their environments.

        They reply ``{"facts": [...]}`` with one entry per environment. A constructor
        that cannot be pickled is a UserError.
        """
        paths = {
            "path": launcher.search_path(),
            "pythonpath": os.environ.get("PYTHONPATH"),
        }
        state = inherited.collect()
        for worker in self.workers:
            part = self._constructors[worker.rows.start : worker.rows.stop]
            worker.store(launcher.pickled(part, worker.rows.start, state))
        return self._ask(
            self.workers,
            protocol.CONSTRUCT,
            self._construct_seconds,
            lambda worker: {**paths, "count": len(worker.rows)},
        )

    def share(self, restarts: list[int] | None, takes_over: bool = False) -> Outcome:
        """Make workers with environments map the shared memory, see ``attach``.

        With ``takes_over`` they continue the rows of other workers, instead of waiting
        for a reset.
        """

        def payload(worker: Worker) -> dict[str, Any]:
            counts = restarts and restarts[worker.rows.start : worker.rows.stop]
            own = {"worker": worker.index, "restarts": counts}
            return {**self.options, **own, "takes_over": takes_over}

        return self._ask(self.workers, protocol.ATTACH, _SEND_SECONDS, payload)

    def drive(self, hub: Hub, report_ends: bool) -> None:
        """Let a native hub send the commands; tell it which workers end."""
        self._hub = hub

        def died(worker: Worker) -> bool:
            hub.notify("died", worker.index)
            return False

        def watch() -> None:
            self.supervisor.watch_interrupts()
            for worker in self.workers if report_ends else ():
                self.supervisor.watch(worker.pidfd, functools.partial(died, worker))

        self.supervisor.call(watch)

    def command(
        self, code: int, seed: int, limits: Sequence[float | None], context: Context
    ) -> Outcome:
        """Reset all environments with ``seed``, or step them.

        Args:
          code: command of ``protocol``.
          seed: seed of a reset.
          limits: deadline of each worker in seconds; None waits forever.
          context: returns known fields of the failure of a row, if its worker ends.
        """
        payload = None if code == protocol.STEP else lambda worker: {"seed": seed}
        with self._in_use():
            self._replace()
            workers = [x for x in self.workers if x.index not in self._lost]
            missing = [row for i in self._lost for row in self.workers[i].rows]
            outcome = self._ask(workers, code, limits, payload, context)
            outcome.lost.update(missing)
            return outcome

    def explain(
        self,
        code: int,
        sequences: Sequence[int],
        failed: Mapping[int, bool],
        context: Context,
    ) -> Outcome:
        """Collect the failures of a command of the hub, see ``command``.

        ``sequences`` are the command's numbers by worker, and ``failed`` are the
        workers that failed, and whether they timed out.
        """
        deadline = time.monotonic() + _FRAME_SECONDS
        with self._in_use():
            self._context = context
            for i, late in failed.items():
                until = 0.0 if late else deadline
                worker = self.workers[i]
                self._pending[i] = Request(worker, code, sequences[i], until)
            self._wait(stoppable=False)
            return self._collect()

    def listen(self, context: Context) -> list[Failure]:
        """Read unrequested messages of workers and check that they run."""
        if self.stopping or not self._busy.acquire(blocking=False):
            return []
        try:
            self._context = context
            while not self.stopping and (ready := self._poll.poll(0)):
                self._read(ready)
            return self._collect().faults
        finally:
            self._busy.release()

    def row(self, worker: Worker) -> int | None:
        """Return the row that a worker steps, or ``layout.NO_ROW``."""
        if self.words:
            return self.words[worker.index][layout.ROW]
        return worker.row

    def stop(self) -> None:
        """End the current wait and all later ones; from any thread."""
        self.stopping = True
        if self._hub is not None:  # before workers skip rows
            self._hub.notify("stop")
        for words in self.words:
            words[layout.STOP] = 1
        stop = self._stop
        if stop >= 0:
            os.eventfd_write(stop, 1)

    def close(self) -> None:
        """End every worker within two seconds and free all resources."""
        if os.getpid() != self._process:
            return  # a forked child must not end the learner's workers
        self.stop()
        self.end_restarts()
        running = [x for x in self.workers if x.pidfd >= 0 and x.exit_code is None]
        frame = protocol.pack(protocol.CLOSE, 0)
        for worker in running:
            with contextlib.suppress(OSError):  # it has ended or its socket is full
                worker.send(frame, 0)
        if self._hub is not None:
            self._hub.notify("poke")
        launcher.end(running, _CLOSE_SECONDS)
        for worker in running:
            ended = worker.reap()
            if worker.exit_code == 1:
                _LOG.warning("worker %d %s: %s", worker.index, ended, worker.tail())
        if hasattr(self, "supervisor"):
            self.supervisor.close()
        if self._hub is not None:
            self._hub.close()
        self._closed = True
        if self._busy.acquire(timeout=0.5):
            self._free()
            self._busy.release()
        # otherwise the current command does it when it returns

    def drop(self, worker: Worker) -> None:
        """Free the resources of a worker that has ended."""
        supervisor, output = self.supervisor, worker.output
        with contextlib.suppress(Ended):
            supervisor.call(lambda: supervisor.unwatch(output))
        worker.close()

    def _start(self, worker: Worker) -> None:
        """Start a worker in the supervisor's thread, and accept its replies."""

        def start() -> None:
            worker.start(self._variables, self.memory)
            self.supervisor.watch(worker.output, worker.drain)

        self.supervisor.call(start)
        self._add(worker)

    def _listen(self) -> None:
        """Prepare waits for replies; ``_add`` says of which workers."""
        self._poll = select.poll()
        self._poll.register(self._stop, select.POLLIN)
        # By descriptor: the worker, and whether it is its control socket.
        self._known: dict[int, tuple[Worker, bool]] = {}
        self._pending: dict[int, Request] = {}  # by worker
        self._outcome = Outcome()  # of the current request
        self._context: Context = lambda row: {}
        self._failed = False  # then waits are short

    def _add(self, worker: Worker) -> None:
        """Accept replies of a started worker."""
        for descriptor in (worker.channel.fileno(), worker.pidfd):
            self._poll.register(descriptor, select.POLLIN)
            self._known[descriptor] = worker, descriptor != worker.pidfd

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        """Lock the descriptors; an interrupted call leaves the workers unusable."""
        with self._busy:
            try:
                yield
            except BaseException:
                # For example Ctrl-C: an old reply may still arrive, so later ones
                # could not be trusted.
                self.stop()
                raise
            finally:
                if self._closed:
                    self._free()

    def _ask(
        self,
        workers: Iterable[Worker],
        code: int,
        limits: float | Sequence[float | None] | None,
        payload: Callable[[Worker], Any] | None = None,
        context: Context = lambda row: {},
    ) -> Outcome:
        """Send a request to workers and wait for the replies, see ``command``.

        One limit in seconds is that of each worker.
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
            limit = limits[index] if isinstance(limits, Sequence) else limits
            deadline = float("inf") if limit is None else now + limit
            self._pending[index] = Request(worker, code, sequence, deadline)
            # If sending fails, the wait reports the reason.
            with contextlib.suppress(OSError):
                worker.send(frame, limit or _SEND_SECONDS)
        self._wait()
        return self._collect()

    def _collect(self) -> Outcome:
        """Return the outcome of a request; after a stop, all rows are lost."""
        self._pending.clear()  # only a stop leaves some
        outcome, self._outcome = self._outcome, Outcome()
        if self.stopping:
            outcome.stopped = True
            outcome.lost.update(row for worker in self.workers for row in worker.rows)
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

    def _record(self, worker: Worker, fault: Failure, rows: Iterable[Any]) -> None:
        """Record a failure; unless it heals, the other workers have one second left."""
        self._outcome.lost.update(rows)
        if self.healing is None or not self.healing.grant(worker, fault):
            self._outcome.faults.append(fault)
            self._failed = True
        elif worker.exit_code is not None:
            self._lost[worker.index] = fault, time.monotonic()

    def _replace(self) -> None:
        """Replace the workers that were lost in earlier commands."""
        for index, (fault, since) in list(self._lost.items()):
            assert self.healing is not None  # as it was granted
            old = self.workers[index]
            new = self.healing.replace(old, fault, since)
            if new is not None:
                self.workers[index] = new
                del self._lost[index]
                self._add(new)
                self.drop(old)

    def _free(self) -> None:
        """Close the descriptors; end workers that replaced others during ``close``."""
        for worker in self.workers:
            worker.kill()
            worker.close()
        self.words = ()
        for name in ("_stop", "memory"):
            descriptor = getattr(self, name)
            setattr(self, name, -1)
            if descriptor >= 0:
                os.close(descriptor)


def split(num_envs: int, num_workers: int, num_groups: int = 1) -> list[range]:
    """Return contiguous blocks of rows, one per worker, of almost equal sizes.

    All groups of workers have the same number of rows.
    """
    rows, workers = num_envs // num_groups, num_workers // num_groups
    size, extra = divmod(rows, workers)
    within = [size * i + min(i, extra) for i in range(workers)]
    starts = [rows * group + start for group in range(num_groups) for start in within]
    return [range(*pair) for pair in itertools.pairwise([*starts, num_envs])]
