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
from typing import Any

from tfagents_batch.envs import launcher, layout, postmortem, protocol
from tfagents_batch.envs.failures import Failure
from tfagents_batch.envs.launcher import Worker
from tfagents_batch.envs.outcome import Context, Fault, Outcome
from tfagents_batch.envs.supervisor import Supervisor

_LOG = logging.getLogger("tfagents_batch")
_GRACE_SECONDS = 1.0  # for the other workers once one has failed
_FRAME_SECONDS = 5.0  # for the text of a failure, which follows its reply
_SEND_SECONDS = 30.0  # where the phase has no deadline
_CLOSE_SECONDS = (0.9, 0.4)  # until SIGTERM, until SIGKILL


class ProcessCrew:
    """Workers that own contiguous rows.

    Args:
      constructors: one per environment.
      num_workers: processes, at most one per environment.
      variables: environment variables of the workers that override ours.

    Attributes:
      stale: replies with another number than expected; they are dropped.
    """

    def __init__(
        self,
        constructors: Sequence[Callable[[], Any]],
        num_workers: int,
        variables: Mapping[str, str],
    ):
        self.stale = 0
        self._owner = os.getpid()
        self._constructors = constructors
        self._variables = variables
        blocks = split(len(constructors), num_workers)
        self.workers = [Worker(index, rows) for index, rows in enumerate(blocks)]
        self._words: list[Any] = []
        self._sequence = 0
        self._stopping = False
        self._closing = threading.Lock()
        self._closed = False
        self._busy = threading.Lock()  # held while descriptors are in use
        self._reported: set[int] = set()  # workers whose end is no news
        self._gone: set[int] = set()
        self._poll = select.poll()
        self._known: dict[int, tuple[Worker, bool]] = {}  # fd: worker, is it a reply
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._stop, select.POLLIN)
        self._hub: Any = None
        self._supervisor = Supervisor()

    def construct(self, seconds: float | None) -> Outcome:
        """Start the workers and make the environments.

        Args:
          seconds: deadline.

        Returns:
          replies ``{"facts": [...]}`` with one entry per environment.
        """
        self._supervisor.call(self._start)
        for worker in self.workers:
            self._register(worker)
        payload = {
            "path": launcher.search_path(),
            "pythonpath": os.environ.get("PYTHONPATH"),
        }
        pickles = []
        try:
            for worker in self.workers:
                rows = slice(worker.rows.start, worker.rows.stop)
                part = self._constructors[rows]
                pickles.append(launcher.pickled(part, worker.rows.start))
            payloads = [payload] * len(self.workers)
            limits = [seconds] * len(self.workers)
            return self.command(protocol.CONSTRUCT, payloads, limits, pickles)
        finally:
            for descriptor in pickles:
                os.close(descriptor)

    def attach(
        self,
        plan: layout.Layout,
        memory: Any,
        descriptor: int,
        finite_check: str,
        native: bool | None = None,
    ) -> Outcome:
        """Give the workers the shared memory.

        Args:
          native: not None if a hub will drive them; then whether they should poll a
            little before they sleep.
        """
        self._words = [layout.control(memory, w.index) for w in self.workers]
        payloads = [
            {
                "layout": plan.to_json(),
                "worker": w.index,
                "finite_check": finite_check,
                "native": native is not None,
                "spin": bool(native),
            }
            for w in self.workers
        ]
        count = len(self.workers)
        limits, descriptors = [_SEND_SECONDS] * count, [descriptor] * count
        return self.command(protocol.ATTACH, payloads, limits, descriptors)

    def drive(self, hub: Any) -> None:
        """Leave commands to a native hub from now on."""
        self._hub = hub
        self._supervisor.call(self._watch_ends)

    @property
    def sequence(self) -> int:
        """Number of the last command."""
        return self._sequence

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
        with self._busy:
            try:
                return self._command(code, payloads, limits, descriptors, context)
            except BaseException:
                # For example Ctrl-C: a reply is outstanding, so nothing after this
                # could be trusted.
                self.stop()
                raise
            finally:
                if self._closed:
                    self._close_descriptors()

    def idle_crashes(self, context: Context) -> list[Fault]:
        """Workers that ended although nobody told them to."""
        if self._stopping or not self._busy.acquire(blocking=False):
            return []
        try:
            return [
                self._crash(worker, None, context)
                for worker in self.workers
                if not worker.alive()
            ]
        finally:
            self._busy.release()

    def explain(
        self, code: int, sequence: int, states: Sequence[int], context: Context
    ) -> Outcome:
        """Find out what made a command fail that a hub has sent.

        Args:
          code, sequence: of the command.
          states: of the workers, see ``native.hub``.
          context: what is known of a row.
        """
        from tfagents_batch.envs.native import hub as hubs

        outcome = Outcome()
        patience = time.monotonic() + _FRAME_SECONDS
        with self._busy:
            told = (hubs.FAILED, hubs.DEAD)
            waiting = {i: patience for i, state in enumerate(states) if state in told}
            late = {i: 0.0 for i, state in enumerate(states) if state == hubs.LATE}
            self._wait(waiting, code, sequence, outcome, context, heed_stop=False)
            if late:
                self._expire(late, protocol.NAMES[code], outcome, context)
        return outcome

    def listen(self, context: Context) -> list[Fault]:
        """Read what workers said unasked, and look whether they live."""
        if self._stopping or not self._busy.acquire(blocking=False):
            return []
        try:
            outcome = Outcome()
            while ready := self._poll.poll(0):
                dead = self._read(ready, {}, 0, None, outcome, context)
                for worker in dead:
                    self._forget(worker)
                    outcome.faults.append(self._crash(worker, None, context))
                if self._stopping:
                    break
            return outcome.faults
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
        self._supervisor.close()
        if self._hub is not None:
            self._hub.close()
        if self._busy.acquire(timeout=0.5):
            self._busy.release()
            self._close_descriptors()
        # else: the command that is under way closes them when it returns

    def _start(self) -> None:
        for worker in self.workers:
            worker.start(self._variables)
            self._supervisor.watch(worker)

    def _watch_ends(self) -> None:
        for worker in self.workers:
            self._supervisor.watch_end(
                worker.pidfd, functools.partial(self._hub.died, worker.index)
            )
        self._supervisor.watch_interrupts()

    def _register(self, worker: Worker) -> None:
        for descriptor, is_reply in (
            (worker.channel.fileno(), True),
            (worker.pidfd, False),
        ):
            self._poll.register(descriptor, select.POLLIN)
            self._known[descriptor] = (worker, is_reply)

    def _command(self, code, payloads, limits, descriptors, context) -> Outcome:
        outcome = Outcome()
        if self._stopping:
            outcome.stopped = True
            outcome.lost.update(range(len(self._constructors)))
            return outcome
        self._sequence = sequence = self._sequence + 1
        waiting: dict[int, float] = {}
        frame = None
        now = time.monotonic()
        for index, worker in enumerate(self.workers):
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
            waiting[index] = float("inf") if limit is None else now + limit
            descriptor = descriptors[index] if descriptors else None
            # Otherwise dead, or deaf until its deadline: the wait finds out.
            with contextlib.suppress(OSError):
                worker.send(frame, descriptor, limit or _SEND_SECONDS)
        self._wait(waiting, code, sequence, outcome, context)
        return outcome

    def _wait(
        self,
        waiting: dict[int, float],
        code: int,
        sequence: int,
        outcome: Outcome,
        context: Context,
        heed_stop: bool = True,
    ) -> None:
        """The one wait: until all have replied, failed or are late, or a stop."""
        phase = protocol.NAMES[code]
        dead = [self.workers[index] for index in waiting if index in self._gone]
        while waiting:
            for worker in dead:  # after what they said last
                self._forget(worker)
                if waiting.pop(worker.index, None) is not None:
                    outcome.faults.append(self._crash(worker, phase, context))
                    outcome.lost.update(worker.rows)
            if outcome.faults:
                grace = time.monotonic() + _GRACE_SECONDS
                for index, deadline in waiting.items():
                    waiting[index] = min(deadline, grace)
            if not waiting:
                break
            if self._stopping and heed_stop:
                break
            milliseconds = None
            earliest = min(waiting.values())
            if earliest != float("inf"):
                left = earliest - time.monotonic()
                if left <= 0:
                    self._expire(waiting, phase, outcome, context)
                    break
                milliseconds = left * 1000 + 1
            ready = self._poll.poll(milliseconds)
            dead = self._read(ready, waiting, sequence, phase, outcome, context)
        for worker in dead:
            self._forget(worker)
        for index in waiting:
            outcome.lost.update(self.workers[index].rows)
        if self._stopping and heed_stop:
            # Once asked to stop, workers leave rows alone and reply all the same.
            outcome.stopped = True
            outcome.lost.update(range(len(self._constructors)))

    def _read(
        self, ready, waiting, sequence, phase, outcome, context
    ) -> list[launcher.Worker]:
        """Read from descriptors that are ready; the workers that have ended."""
        dead = []
        for descriptor, _ in ready:
            if descriptor == self._stop or descriptor not in self._known:
                continue
            worker, is_reply = self._known[descriptor]
            if not is_reply:
                dead.append(worker)
                continue
            try:
                frames = worker.inbox.read()
            except protocol.Malformed as error:
                waiting.pop(worker.index, None)
                outcome.faults.append(self._deaf(worker, error, phase, context))
                outcome.lost.update(worker.rows)
                continue
            self._take(worker, frames, waiting, sequence, outcome)
            if worker.inbox.closed:
                dead.append(worker)
        return list(dict.fromkeys(dead))

    def _take(self, worker, frames, waiting, sequence, outcome) -> None:
        """Sort a worker's frames: stale, progress, or the reply."""
        for header, payload in frames:
            if header.sequence != sequence or worker.index not in waiting:
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
            del waiting[worker.index]
            if payload is None:
                continue
            outcome.replies[worker.index] = payload
            for data in payload["failures"]:
                failure = Failure(**data)
                outcome.faults.append(Fault(failure, worker.index))
                outcome.lost.add(failure.env)

    def _expire(self, waiting, phase, outcome, context) -> None:
        """Find out why workers are late, and end them."""
        if outcome.faults:
            return  # cut short because another one failed: no fault of theirs
        late = [self.workers[index] for index in waiting]
        for worker in late:
            fault = postmortem.late(worker, self._row(worker), phase, context)
            outcome.faults.append(fault)
            self._reported.add(worker.index)
        launcher.end(late, grace=0)
        for worker in late:  # its rows have no owner until it is surely gone
            worker.reap()
            self._forget(worker)

    def _crash(self, worker: Worker, phase: str | None, context: Context) -> Fault:
        self._reported.add(worker.index)
        return postmortem.dead(worker, self._row(worker), phase, context)

    def _deaf(self, worker: Worker, error: Exception, phase, context) -> Fault:
        self._forget(worker)
        self._reported.add(worker.index)
        worker.signal(signal.SIGKILL)
        return postmortem.deaf(worker, self._row(worker), phase, context, error)

    def _row(self, worker: Worker) -> int | None:
        """The row a worker was at; ``layout.NO_ROW`` if at none."""
        if self._words:
            return self._words[worker.index][layout.ROW]
        return worker.row

    def _forget(self, worker: Worker) -> None:
        """Wait no more for a worker that has ended."""
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


def split(num_envs: int, num_workers: int) -> list[range]:
    """Contiguous blocks of rows whose sizes differ by at most one."""
    size, extra = divmod(num_envs, num_workers)
    starts = [size * i + min(i, extra) for i in range(num_workers + 1)]
    return [range(*pair) for pair in itertools.pairwise(starts)]
