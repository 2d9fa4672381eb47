"""Group of worker processes: start, commands, end."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfagents_batch.envs.processes import launcher
from tfagents_batch.envs.processes.launcher import Worker
from tfagents_batch.envs.processes.requests import Request, Requests
from tfagents_batch.envs.processes.restart_budget import RestartBudget
from tfagents_batch.envs.processes.supervisor import Ended, Supervisor
from tfagents_batch.envs.processes.worker_restart import Replacements, Restarter
from tfagents_batch.envs.shared import layout, protocol
from tfagents_batch.envs.shared.failures import Context, Failure, Outcome

_LOG = logging.getLogger("tfagents_batch")
_FRAME_SECONDS = 5.0  # for the text of a failure after its reply
_CLOSE_SECONDS = 0.9  # before SIGKILL


class ProcessExecutor:
    """Worker processes, each with contiguous rows of the batch.

    Args:
      constructors: one per environment.
      num_workers: number of processes, at most one per environment.
      num_groups: divisor of the numbers of workers and of environments.
      variables: additional environment variables of the workers.

    Attributes:
      workers: the processes, by index.
      stopping: whether a stop was requested.
      supervisor: the thread that starts them.
      requests: requests to them; None before ``construct``.
      stop_descriptor: readable after a stop.
      memory: descriptor of the shared memory, which workers inherit.
      owner: None; the processes run whichever thread calls.
      constructors, seconds, facts, plan, options: what replacements are made of: the
        arguments of ``construct`` and ``attach``, and the properties of each
        environment, see ``construction.inspect``.
    """

    owner = None

    def __init__(
        self,
        constructors: Sequence[Callable[[], Any]],
        num_workers: int,
        num_groups: int,
        variables: Mapping[str, str],
    ):
        blocks = split(len(constructors), num_workers, num_groups)
        self.workers = [Worker(index, rows) for index, rows in enumerate(blocks)]
        self.supervisor: Any = None
        self.stop_descriptor = self.memory = -1
        self._owner = os.getpid()
        self.constructors = constructors
        self.seconds: float | None = None
        self.facts: list[dict] = []
        self.plan: Any = None
        self.options: dict[str, Any] = {}
        self._variables = variables
        self.requests: Any = None
        self.stopping = False
        self._closed = False  # the workers of that time have ended
        self._busy = threading.Lock()  # held while descriptors are in use
        self._hub: Any = None
        self._replacements: Replacements | None = None
        self._restarter: Restarter | None = None
        self._lost: dict[int, tuple[Failure, float]] = {}  # worker: failure, time

    def construct(self, seconds: float | None) -> Outcome:
        """Start the workers and create the environments, see ``Requests.construct``.

        Raises:
          OSError: if there are too few processes, threads or descriptors left.
        """
        self.stop_descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.memory = os.memfd_create("tfagents_batch", os.MFD_CLOEXEC)
        self.requests = Requests(self.stop_descriptor)
        self.supervisor = Supervisor()
        for worker in self.workers:
            self.start(worker)
            self.requests.add(worker)
        self.seconds = seconds
        with self._in_use():
            request = self.workers, self.constructors, seconds
            outcome = self._stopped(self.requests.construct(*request))
        if outcome.fine:
            replies = (outcome.replies[worker.index] for worker in self.workers)
            self.facts = [fact for reply in replies for fact in reply["facts"]]
        return outcome

    def attach(self, plan: layout.Layout, memory: Any, options: dict) -> Outcome:
        """Let the workers map the shared memory, see ``Requests.attach``."""
        self.plan, self.options = plan, options
        words = [layout.control(memory, worker.index) for worker in self.workers]
        self.requests.words = words
        with self._in_use():
            return self._stopped(self.requests.attach(self.workers, plan, options))

    def drive(self, hub: Any, report_ends: bool) -> None:
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

    def replace_lost(self, budget: RestartBudget, engine: Any) -> None:
        """Replace lost workers from now on: at once, or without a hub before commands.

        Args:
          budget: grants restarts.
          engine: ``Native`` or ``Portable``.
        """
        self._replacements = Replacements(self, budget)
        if engine.handle is None:
            self.requests.tolerate = self._tolerate
        else:
            self._restarter = Restarter(self, self._replacements, engine)

    @property
    def stale(self) -> int:
        """Return the number of replies that were dropped."""
        return self.requests.stale

    def command(
        self,
        code: int,
        seed: int,
        limits: Sequence[float | None],
        context: Context,
    ) -> Outcome:
        """Reset all environments with ``seed``, or step them; see ``Requests.ask``."""
        payload = None if code == protocol.STEP else lambda worker: {"seed": seed}
        by_worker = dict(enumerate(limits))
        with self._in_use():
            self._replace()
            workers = [x for x in self.workers if x.index not in self._lost]
            missing = [row for i in self._lost for row in self.workers[i].rows]
            request = workers, code, by_worker, payload
            outcome = self.requests.ask(*request, context=context)
            outcome.lost.update(missing)
            return self._stopped(outcome)

    def explain(
        self,
        code: int,
        sequences: Sequence[int],
        failed: Mapping[int, bool],
        context: Context,
    ) -> Outcome:
        """Collect the failures of a command of the hub.

        Args:
          code, sequences: the command, and its sequence number by worker.
          failed: workers that failed, and whether they timed out.
          context: returns known fields of the failure of a row.
        """
        deadline = time.monotonic() + _FRAME_SECONDS
        requests = [
            Request(self.workers[i], code, sequences[i], 0.0 if late else deadline)
            for i, late in failed.items()
        ]
        with self._in_use():
            return self._stopped(self.requests.explain(requests, context))

    def listen(self, context: Context) -> list[Failure]:
        """Read unrequested messages of workers and check that they run."""
        if self.stopping or not self._busy.acquire(blocking=False):
            return []
        try:
            return self.requests.listen(context)
        finally:
            self._busy.release()

    def stop(self) -> None:
        """End the current wait and all later ones; from any thread."""
        self.stopping = True
        if self._hub is not None:  # before workers skip rows
            self._hub.notify("stop")
        if self.requests is not None:
            self.requests.stopping = True
            for words in self.requests.words:
                words[layout.STOP] = 1
        stop = self.stop_descriptor
        if stop >= 0:
            os.eventfd_write(stop, 1)

    def close(self) -> None:
        """End every worker within two seconds and free all resources."""
        if os.getpid() != self._owner:
            return  # a forked child must not end the learner's workers
        self.stop()
        if self._restarter is not None:
            self._restarter.close()
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
        if self.supervisor is not None:
            self.supervisor.close()
        if self._hub is not None:
            self._hub.close()
        self._closed = True
        if self._busy.acquire(timeout=0.5):
            self._free()
            self._busy.release()
        # otherwise the current command does it when it returns

    def start(self, worker: Worker) -> None:
        """Start a worker, in the supervisor's thread."""

        def start() -> None:
            worker.start(self._variables, self.memory)
            self.supervisor.watch(worker.output, worker.drain)

        self.supervisor.call(start)

    def drop(self, worker: Worker) -> None:
        """Free the resources of a worker that has ended."""
        supervisor, output = self.supervisor, worker.output
        with contextlib.suppress(Ended):
            supervisor.call(lambda: supervisor.unwatch(output))
        worker.close()

    def _stopped(self, outcome: Outcome) -> Outcome:
        """Mark all rows as lost if stepping was stopped."""
        if self.stopping:
            outcome.stopped = True
            outcome.lost.update(row for worker in self.workers for row in worker.rows)
        return outcome

    @contextlib.contextmanager
    def _in_use(self):
        """Lock the descriptors; an interrupted call leaves the pool unusable."""
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

    def _tolerate(self, worker: Worker, fault: Failure) -> bool:
        """Return whether failed environments are replaced."""
        assert self._replacements is not None  # as this is called
        if worker.exit_code is None:
            return self._replacements.budget.grant_in_worker(fault)
        granted = self._replacements.grant(worker, fault)
        if granted:
            self._lost[worker.index] = fault, time.monotonic()
        return granted

    def _replace(self) -> None:
        if self._replacements is None:
            return
        for index, (fault, since) in list(self._lost.items()):
            old = self.workers[index]
            new = self._replacements.replace(old, fault, since)
            if new is not None:
                self.workers[index] = new
                del self._lost[index]
                self.requests.add(new)
                self.drop(old)

    def _free(self) -> None:
        """Close the descriptors; end workers that replaced others during ``close``."""
        for worker in self.workers:
            worker.kill()
            worker.close()
        if self.requests is not None:
            self.requests.words = ()
        for name in ("stop_descriptor", "memory"):
            descriptor = getattr(self, name)
            setattr(self, name, -1)
            if descriptor >= 0:
                os.close(descriptor)


def split(num_envs: int, num_workers: int, num_groups: int = 1) -> list[range]:
    """Return contiguous blocks of rows, one per worker; sizes differ by at most one.

    All groups of workers have the same number of rows.
    """
    rows, workers = num_envs // num_groups, num_workers // num_groups
    size, extra = divmod(rows, workers)
    within = [size * i + min(i, extra) for i in range(workers)]
    starts = [rows * group + start for group in range(num_groups) for start in within]
    return [range(*pair) for pair in itertools.pairwise([*starts, num_envs])]
