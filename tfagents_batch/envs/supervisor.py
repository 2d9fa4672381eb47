"""The thread that starts a pool's workers, takes their output and sees them end.

The kernel kills a worker when the thread that started it ends, so that thread has to
live as long as the pool. It needs no TensorFlow and runs beside a blocked program.
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tfagents_batch.envs import interrupts
from tfagents_batch.envs.launcher import Worker


class Supervisor:
    """One daemon thread."""

    def __init__(self) -> None:
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._jobs: collections.deque[tuple[Callable[[], Any] | None, Future]] = (
            collections.deque()
        )
        self._workers: dict[int, Worker] = {}
        self._ends: dict[int, Callable[[], Any]] = {}
        self._signals: int | None = None
        self._ended = False
        self._thread = threading.Thread(
            target=self._run, name="tfagents_batch-supervisor", daemon=True
        )
        self._thread.start()

    def call(self, job: Callable[[], Any]) -> Any:
        """Run ``job`` in the thread; its result, or its exception."""
        return self._submit(job).result()

    def watch(self, worker: Worker) -> None:
        """Take a worker's output from now on; only from a job."""
        self._workers[worker.output] = worker

    def watch_end(self, pidfd: int, tell: Callable[[], Any]) -> None:
        """Call ``tell`` once when a process has ended; only from a job."""
        self._ends[pidfd] = tell

    def watch_interrupts(self) -> None:
        """Stop the pools on Ctrl-C, see ``interrupts``; only from a job."""
        self._signals = interrupts.acquire()

    def close(self) -> None:
        """End the thread; safe from any thread and more than once."""
        if self._ended:
            return
        self._ended = True
        self._submit(None)
        # A collected pool may be closed by any thread, this one included.
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _submit(self, job: Callable[[], Any] | None) -> Future:
        future: Future = Future()
        self._jobs.append((job, future))
        os.eventfd_write(self._wake, 1)
        return future

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        registered: set[int] = set()
        while True:
            for descriptor, _ in poll.poll():
                if descriptor in self._ends:
                    poll.unregister(descriptor)
                    self._ends.pop(descriptor)()
                    continue
                if descriptor == self._signals:
                    interrupts.stop_pools(descriptor)
                    continue
                if descriptor != self._wake:
                    worker = self._workers[descriptor]
                    if not worker.drain():
                        poll.unregister(descriptor)
                    continue
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
                while self._jobs:
                    job, future = self._jobs.popleft()
                    if job is None:
                        os.close(self._wake)
                        if self._signals is not None:
                            interrupts.release()
                        return
                    try:
                        future.set_result(job())
                    except BaseException as error:
                        future.set_exception(error)
                watched = self._workers.keys() | self._ends.keys()
                if self._signals is not None:
                    watched |= {self._signals}
                for watch in watched - registered:
                    poll.register(watch, select.POLLIN)
                    registered.add(watch)
