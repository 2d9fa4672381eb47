"""Worker processes as one: commands to all, and the one way to wait for them.

Every wait returns the earliest of: all replies, the crash of a worker, the deadline
of a worker, stop.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tfagents_batch.envs import failures, launcher, layout, postmortem, protocol
from tfagents_batch.envs.launcher import Worker
from tfagents_batch.envs.outcome import Context, Fault, Outcome
from tfagents_batch.envs.supervisor import Supervisor
from tfagents_batch.envs.waiting import Waiting

_LOG = logging.getLogger("tfagents_batch")
_GRACE_SECONDS = 1.0  # for the other workers once one has failed
_FRAME_SECONDS = 5.0  # for the text of a failure, which follows its reply
_SEND_SECONDS = 30.0  # where the phase has no deadline
_CLOSE_SECONDS = (0.9, 0.4)  # until SIGTERM, until SIGKILL


class Flight(NamedTuple):
    """A command that a worker has not yet answered.

    Attributes:
      code: of ``protocol``.
      sequence: its number.
      deadline: on the monotonic clock, in seconds.
      context: what is known of a row, for the failures of dead workers.
    """

    code: int
    sequence: int
    deadline: float
    context: Context


class ProcessCrew:
    """Workers that own contiguous rows.

    Args:
      constructors: one per environment.
      num_workers: processes, at most one per environment.
      num_groups: of workers and of environments, both divisible by it.
      variables: environment variables of the workers that override ours.

    Attributes:
      stale: replies with another number than expected; they are dropped.
      workers: the processes, by index.
    """

    def __init__(
        self,
        constructors: Sequence[Callable[[], Any]],
        num_workers: int,
        num_groups: int,
        variables: Mapping[str, str],
    ):
        self.stale = 0
        self._owner = os.getpid()
        self._constructors = constructors
        self._variables = variables
        blocks = split(len(constructors), num_workers, num_groups)
        self.workers = [Worker(index, rows) for index, rows in enumerate(blocks)]
        self._words: list[Any] = []
        self._sequence = 0
        self._stopping = False
        self._closing = threading.Lock()
        self._closed = False
        self._busy = threading.Lock()  # held while descriptors are in use
        self._flights: dict[int, Flight] = {}  # by worker
        self._results: dict[int, Outcome] = {}  # by worker, where there is one to tell
        self._failed = False  # a fault was found: nobody is waited for much longer
        self._reported: set[int] = set()  # workers whose end is no news
        self._gone: set[int] = set()
        self._poll = select.poll()
        self._known: dict[int, tuple[Worker, bool]] = {}  # fd: worker, is it a reply
        self._stop = -1
        self._hub: Any = None
        self._nurse: Any = None
        self._supervisor: Any = None

    def construct(self, seconds: float | None) -> Outcome:
        """Start the workers and make the environments.

        Args:
          seconds: deadline.

        Returns:
          replies ``{"facts": [...]}`` with one entry per environment.

        Raises:
          OSError: if there are too few processes, threads or descriptors left.
        """
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._stop, select.POLLIN)
        self._supervisor = Supervisor()
        self._supervisor.call(self._start)
        for worker in self.workers:
            self.register(worker)
        pickles = []
        try:
            for worker in self.workers:
                part = self.constructors(worker)
                pickles.append(launcher.pickled(part, worker.rows.start))
            payloads = [construct_payload()] * len(self.workers)
            limits = [seconds] * len(self.workers)
            return self.command(protocol.CONSTRUCT, payloads, limits, pickles)
        finally:
            for descriptor in pickles:
                os.close(descriptor)

    def constructors(self, worker: Worker) -> Sequence[Callable[[], Any]]:
        """Of a worker's environments."""
        return self._constructors[worker.rows.start : worker.rows.stop]

    def attach(
        self, plan: layout.Layout, memory: Any, descriptor: int, options: dict
    ) -> Outcome:
        """Give the workers the shared memory.

        Args:
          options: of ``attach_payload``.
        """
        self._words = [layout.control(memory, w.index) for w in self.workers]
        payloads = [attach_payload(plan, w, **options) for w in self.workers]
        count = len(self.workers)
        limits, descriptors = [_SEND_SECONDS] * count, [descriptor] * count
        return self.command(protocol.ATTACH, payloads, limits, descriptors)

    def drive(self, hub: Any) -> None:
        """Leave commands to a native hub from now on."""
        self._hub = hub
        if self._nurse is None:
            self._supervisor.call(self._watch_ends)
        else:
            self._nurse.drive(hub)
        self._supervisor.call(self._supervisor.watch_interrupts)

    def heal(self, nurse: Any) -> None:
        """Have workers that are lost replaced from now on, by a ``Nurse``."""
        self._nurse = nurse
        self._poll.register(nurse.news, select.POLLIN)

    @property
    def size(self) -> int:
        """How many take commands."""
        return len(self.workers)

    @property
    def sequence(self) -> int:
        """Number of the last command."""
        return self._sequence

    @property
    def supervisor(self) -> Supervisor:
        return self._supervisor

    @property
    def stop_descriptor(self) -> int:
        """Readable once the crew was stopped."""
        return self._stop

    def command(
        self,
        code: int,
        payloads: Sequence[Any] | None,
        limits: Sequence[float | None],
        descriptors: Sequence[int] | None = None,
        context: Context = lambda row: {},
    ) -> Outcome:
        """Have every worker do something, and wait.

        Args:
          code: command of ``protocol``.
          payloads: one per worker.
          limits: seconds per worker; None for never.
          descriptors: one per worker, to be sent along.
          context: what is known of a row, for the failures of dead workers.
        """
        with self._in_use():
            self._begin(code, payloads, limits, descriptors, context)
            self._wait()
            return self._collect()

    def idle_crashes(self, context: Context) -> list[Fault]:
        """Workers that ended although nobody told them to."""
        if self._stopping or not self._busy.acquire(blocking=False):
            return []
        try:
            ended = [worker for worker in self.workers if not worker.alive()]
            if self._nurse is not None:
                for worker in ended:
                    self._end(worker, postmortem.dead)
                return []
            return [self._crash(worker, None, context) for worker in ended]
        finally:
            self._busy.release()

    def explain(
        self,
        code: int,
        sequences: Sequence[int],
        states: Sequence[int],
        context: Context,
    ) -> Outcome:
        """Find out what made a command fail that a hub has sent.

        Args:
          code: of the command.
          sequences: its number, by worker.
          states: of the workers, see ``native.hub``.
          context: what is known of a row.
        """
        from tfagents_batch.envs.native import hub as hubs

        patience = time.monotonic() + _FRAME_SECONDS
        with self._in_use():
            for index, state in enumerate(states):
                if state in (hubs.FAILED, hubs.DEAD, hubs.LATE):
                    deadline = 0.0 if state == hubs.LATE else patience
                    flight = Flight(code, sequences[index], deadline, context)
                    self._flights[index] = flight
            self._wait(heed_stop=False)
            return self._collect()

    def listen(self, context: Context) -> list[Fault]:
        """Read what workers said unasked, and look whether they live."""
        if self._stopping or self._nurse is not None:
            return []
        if not self._busy.acquire(blocking=False):
            return []
        try:
            faults = []
            while ready := self._poll.poll(0):
                for worker in self._read(ready):
                    self._forget(worker)
                    faults.append(self._crash(worker, None, context))
                if self._stopping:
                    break
            for result in self._results.values():  # of who is not understood
                faults += result.faults
            return faults
        finally:
            self._busy.release()

    def stop(self) -> None:
        """End the current wait and refuse every later one; from any thread."""
        self._stopping = True
        if self._hub is not None:  # before the workers may leave rows alone
            self._hub.stop()
        for words in self._words:
            words[layout.STOP] = 1
        stop = self._stop
        if stop >= 0:
            os.eventfd_write(stop, 1)

    @property
    def stopping(self) -> bool:
        return self._stopping

    def close(self) -> None:
        """End every worker within two seconds and free everything; idempotent."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        if os.getpid() != self._owner:
            return  # a forked copy of the learner: the workers are not ours
        self.stop()
        if self._nurse is not None:
            self._nurse.close()
        started = [worker for worker in self.workers if worker.pidfd >= 0]
        frame = protocol.pack(protocol.CLOSE, self._sequence + 1)
        for worker in started:
            with contextlib.suppress(OSError):  # gone, or too busy to be told
                worker.send(frame, None, 0)
        if self._hub is not None:
            self._hub.poke()
        patient = [worker for worker in started if worker.index not in self._reported]
        launcher.end(patient, *_CLOSE_SECONDS)
        for worker in started:
            worker.signal(signal.SIGKILL)
            ended = worker.reap()
            if worker.exit_code == 1 and worker in patient:
                _LOG.warning("worker %d %s: %s", worker.index, ended, worker.tail())
        if self._supervisor is not None:
            self._supervisor.close()
        if self._hub is not None:
            self._hub.close()
        if self._busy.acquire(timeout=0.5):
            self._busy.release()
            self._close_descriptors()
        # else: the command that is under way closes them when it returns

    def start(self, worker: Worker) -> None:
        """Start a worker; in the supervisor's thread."""
        worker.start(self._variables)
        self._supervisor.watch(worker.output, worker.drain)

    def register(self, worker: Worker) -> None:
        """Take replies of a worker that was started."""
        for descriptor, is_reply in (
            (worker.channel.fileno(), True),
            (worker.pidfd, False),
        ):
            self._poll.register(descriptor, select.POLLIN)
            self._known[descriptor] = (worker, is_reply)

    def row(self, worker: Worker) -> int | None:
        """The row a worker is at; ``layout.NO_ROW`` if at none."""
        if self._words:
            return self._words[worker.index][layout.ROW]
        return worker.row

    def _start(self) -> None:
        for worker in self.workers:
            self.start(worker)

    def _watch_ends(self) -> None:
        for worker in self.workers:
            self._supervisor.watch(worker.pidfd, functools.partial(self._died, worker))

    def _died(self, worker: Worker) -> bool:
        self._hub.died(worker.index)
        return False

    @contextlib.contextmanager
    def _in_use(self):
        """Descriptors are in use; what is interrupted cannot be gone on with."""
        with self._busy:
            try:
                yield
            except BaseException:
                # For example Ctrl-C: a reply is outstanding, so nothing after this
                # could be trusted.
                self.stop()
                raise
            finally:
                if self._closed:
                    self._close_descriptors()

    def _begin(self, code, payloads, limits, descriptors, context) -> None:
        if self._nurse is not None:
            self._welcome()
        if self._stopping:
            return
        self._sequence = sequence = self._sequence + 1
        frame = None
        now = time.monotonic()
        for index, worker in enumerate(self.workers):
            if index in self._gone:
                result = self._result(worker)
                result.lost.update(worker.rows)
                if self._nurse is None:
                    phase = protocol.NAMES[code]
                    result.faults.append(self._crash(worker, phase, context))
                    self._failed = True
                continue
            if self._words:
                words = self._words[index]
                words[layout.COMMAND] = code
                words[layout.COMMAND_SEQUENCE] = sequence & 0xFFFFFFFF
            if payloads is not None or frame is None:
                payload = None if payloads is None else payloads[index]
                first, count = worker.rows.start, len(worker.rows)
                frame = protocol.pack(
                    code, sequence, payload, first_row=first, row_count=count
                )
            limit = limits[index]
            deadline = float("inf") if limit is None else now + limit
            self._flights[index] = Flight(code, sequence, deadline, context)
            descriptor = descriptors[index] if descriptors else None
            # Otherwise dead, or deaf until its deadline: the wait finds out.
            with contextlib.suppress(OSError):
                worker.send(frame, descriptor, limit or _SEND_SECONDS)

    def _welcome(self) -> None:
        """Take in replacements; if there is no worker at all, wait for one."""
        nurse = self._nurse
        while True:
            for worker in nurse.ready():
                self.workers[worker.index] = worker
                self._results.pop(worker.index, None)  # that it was lost while idle
                self._gone.discard(worker.index)
                self.register(worker)
            if len(self._gone) < len(self.workers) or self._stopping or nurse.hopeless:
                return
            poll = select.poll()
            poll.register(self._stop, select.POLLIN)
            poll.register(nurse.news, select.POLLIN)
            poll.poll()

    def _collect(self) -> Outcome:
        """What came of the last command."""
        outcome = Outcome()
        for worker in self.workers:
            self._flights.pop(worker.index, None)  # there is one only after a stop
            found = self._results.pop(worker.index, None)
            if found is not None:
                outcome.add(found)
            if self._stopping:
                # Once asked to stop, workers leave rows alone and reply all the same.
                outcome.stopped = True
                outcome.lost.update(worker.rows)
        return outcome

    def _result(self, worker: Worker) -> Outcome:
        return self._results.setdefault(worker.index, Outcome())

    def _wait(self, heed_stop: bool = True) -> None:
        """The one wait: until all have replied, failed or are late, or a stop."""
        flights = self._flights
        while flights:
            if self._stopping and heed_stop:
                return
            milliseconds = None
            earliest = min(flight.deadline for flight in flights.values())
            if earliest != float("inf"):
                now = time.monotonic()
                if earliest <= now:
                    self._expire([i for i, x in flights.items() if x.deadline <= now])
                    continue
                milliseconds = (earliest - now) * 1000 + 1
            for worker in self._read(self._poll.poll(milliseconds)):
                self._end(worker, postmortem.dead)  # after what it said last
            if self._failed or (self._nurse is not None and self._nurse.hopeless):
                grace = time.monotonic() + _GRACE_SECONDS
                for index, flight in flights.items():
                    deadline = min(flight.deadline, grace)
                    flights[index] = flight._replace(deadline=deadline)

    def _read(self, ready) -> list[Worker]:
        """Read from descriptors that are ready; the workers that have ended."""
        dead = []
        for descriptor, _ in ready:
            if self._nurse is not None and descriptor == self._nurse.news:
                self._nurse.heard()
            if descriptor == self._stop or descriptor not in self._known:
                continue
            worker, is_reply = self._known[descriptor]
            if not is_reply:
                dead.append(worker)
                continue
            try:
                self._take(worker, worker.inbox.read())
            except protocol.Malformed as error:
                self._end(worker, functools.partial(postmortem.deaf, error=error))
                continue
            if worker.inbox.closed:
                dead.append(worker)
        return [worker for worker in dict.fromkeys(dead) if worker.pidfd >= 0]

    def _take(self, worker: Worker, frames: Sequence) -> None:
        """Sort a worker's frames: stale, progress, or the reply."""
        for header, payload in frames:
            flight = self._flights.get(worker.index)
            if flight is None or header.sequence != flight.sequence:
                if self._hub is not None and header.status == protocol.NOTES:
                    for note in payload["notes"]:  # of a step that nobody read about
                        _LOG.warning("%s", note)
                    continue
                self.stale += 1
                continue
            worker.row = None
            if header.status == protocol.PROGRESS:
                worker.row = header.first_row
                continue
            del self._flights[worker.index]
            if payload is None:
                continue
            result = self._result(worker)
            result.replies[worker.index] = payload
            for failure in failures.told(payload):
                fault = Fault(failure, worker.index)
                result.lost.add(fault.failure.env)
                if self._nurse is not None:
                    self._nurse.failed(fault)
                else:
                    self._failed = True
                    result.faults.append(fault)

    def _end(self, worker: Worker, how: Callable[..., Fault]) -> None:
        """Wait no more for a worker that has ended, or has to."""
        flight = self._flights.pop(worker.index, None)
        phase = protocol.NAMES[flight.code] if flight else None
        context = flight.context if flight else lambda row: {}
        if self._nurse is not None:
            return self._lose(worker, how, phase, context)
        self._forget(worker)
        if flight is None and how is postmortem.dead:
            return  # whoever gives it a command, or asks, finds out
        self._failed = True
        self._reported.add(worker.index)
        result = self._result(worker)
        result.lost.update(worker.rows)
        result.faults.append(how(worker, self.row(worker), phase, context))

    def _lose(
        self, worker: Worker, how: Callable, phase: str | None, context: Context
    ) -> None:
        """Leave a worker to be replaced."""
        if worker.index in self._gone:
            return
        self._forget(worker)
        self._result(worker).lost.update(worker.rows)
        row = self.row(worker)
        known = context(row) if row in worker.rows else {}
        self._nurse.lost(worker, how, phase, known)

    def _expire(self, indices: Sequence[int]) -> None:
        """Find out why workers are late, and end them."""
        late = [self.workers[index] for index in indices]
        hopeless = self._nurse is not None and self._nurse.hopeless
        if self._failed or hopeless:  # cut short: no fault of theirs
            for worker in late:
                del self._flights[worker.index]
                self._result(worker).lost.update(worker.rows)
            return
        for worker in late:
            self._end(worker, postmortem.late)
        if self._nurse is None:
            launcher.end(late, grace=0)
            for worker in late:  # its rows have no owner until it is surely gone
                worker.reap()

    def _crash(self, worker: Worker, phase: str | None, context: Context) -> Fault:
        self._reported.add(worker.index)
        return postmortem.dead(worker, self.row(worker), phase, context)

    def _forget(self, worker: Worker) -> None:
        """Take no more replies of a worker that has ended."""
        self._gone.add(worker.index)
        for descriptor in [fd for fd, (w, _) in self._known.items() if w is worker]:
            del self._known[descriptor]
            self._poll.unregister(descriptor)

    def _close_descriptors(self) -> None:
        for worker in self.workers:
            worker.close()
        self._words = []
        stop, self._stop = self._stop, -1
        if stop >= 0:
            os.close(stop)


def split(num_envs: int, num_workers: int, num_groups: int = 1) -> list[range]:
    """Contiguous blocks of rows, one a worker, of sizes that differ by at most one.

    Groups of workers have equal numbers of rows.
    """
    rows, workers = num_envs // num_groups, num_workers // num_groups
    size, extra = divmod(rows, workers)
    within = [size * i + min(i, extra) for i in range(workers)]
    starts = [rows * group + start for group in range(num_groups) for start in within]
    return [range(*pair) for pair in itertools.pairwise([*starts, num_envs])]


def construct_payload() -> dict:
    """Of the request for environments: where the worker finds modules."""
    return {
        "path": launcher.search_path(),
        "pythonpath": os.environ.get("PYTHONPATH"),
    }


def attach_payload(
    plan: layout.Layout,
    worker: Worker,
    *,
    finite_check: str,
    strict: bool,
    max_bytes: int | None,
    native: bool,
    waiting: Waiting,
    restarts: Sequence[int] | None = None,
    takes_over: bool = False,
) -> dict:
    """Of the request to use the shared memory.

    Args:
      plan: of the memory.
      worker: who is asked.
      finite_check, strict: see ``Stepper``.
      max_bytes: resident memory above which the worker ends, once an episode has.
      native: whether a hub will give commands.
      waiting: how it waits for commands.
      restarts: how often each environment of the batch was replaced; None if those
        that fail are not to be replaced.
      takes_over: go on in the place of another worker, instead of waiting for a reset.
    """
    rows = worker.rows
    return {
        "layout": plan.to_json(),
        "worker": worker.index,
        "group": worker.index * plan.num_groups // plan.num_workers,
        "finite_check": finite_check,
        "strict": strict,
        "max_bytes": max_bytes,
        "native": native,
        "poll_microseconds": waiting.worker if native else 0,
        "core": waiting.cores and waiting.cores[worker.index],
        "restarts": restarts and list(restarts[rows.start : rows.stop]),
        "takes_over": takes_over,
    }
