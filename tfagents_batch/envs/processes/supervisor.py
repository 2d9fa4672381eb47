"""Thread that starts workers, reads their output and notices their end.

The kernel kills a worker when the thread that started it ends, so that thread has to
live as long as they do. It needs no TensorFlow and runs beside a blocked program.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import functools
import logging
import os
import select
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tfagents_batch.envs.processes import interrupts

_LOG = logging.getLogger("tfagents_batch")


class Ended(Exception):
    """The thread has ended and runs no more jobs."""


class Supervisor:
    """Daemon thread that runs jobs and callbacks of descriptors."""

    def __init__(self) -> None:
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._jobs: collections.deque[tuple[Callable[[], Any] | None, Future]] = (
            collections.deque()
        )
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._watched: dict[int, Callable[[], bool]] = {}
        self._interrupts = False
        self._over = False  # no more jobs are run
        self._submitting = threading.Lock()
        self._thread = threading.Thread(
            target=self._run, name="tfagents_batch-supervisor", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:
            os.close(self._wake)
            raise OSError(errno.EAGAIN, str(error)) from None

    def call(self, job: Callable[[], Any]) -> Any:
        """Return the result of ``job`` in the thread; ``Ended`` after ``close``."""
        if self._thread is threading.current_thread():
            return job()  # for example when an environment is garbage-collected
        return self._submit(job).result()

    def watch(self, descriptor: int, readable: Callable[[], bool]) -> None:
        """Call ``readable`` whenever there is data, until it returns false.

        Only for jobs. The descriptor must stay open until it is no longer watched.
        """
        self._watched[descriptor] = readable
        self._poll.register(descriptor, select.POLLIN)

    def unwatch(self, descriptor: int) -> None:
        """Undo ``watch``; only for jobs."""
        if self._watched.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def watch_interrupts(self) -> None:
        """Stop environments on Ctrl-C, see ``interrupts``; only for jobs."""
        signals = interrupts.acquire()
        self._interrupts = True
        self.watch(signals, functools.partial(interrupts.stop_envs, signals))

    def close(self) -> None:
        """End the thread; safe from any thread and more than once."""
        self._submit(None)
        # Garbage collection may close an environment in any thread, also in this one.
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _readable(self, descriptor: int) -> bool:
        """Return whether to keep watching; workers would end with this thread."""
        try:
            readable = self._watched.get(descriptor)
            return readable is not None and readable()
        except Exception:
            _LOG.exception("a message about environments could not be handled")
            return False

    def _submit(self, job: Callable[[], Any] | None) -> Future:
        future: Future = Future()
        with self._submitting:
            if self._over:
                future.set_exception(Ended())
                return future
            self._jobs.append((job, future))
            os.eventfd_write(self._wake, 1)
        return future

    def _run(self) -> None:
        try:
            self._serve()
        finally:
            with self._submitting:
                self._over = True
                os.close(self._wake)
            for _, future in self._jobs:
                future.set_exception(Ended())
            if self._interrupts:
                interrupts.release()

    def _serve(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor != self._wake:
                    if not self._readable(descriptor):
                        self.unwatch(descriptor)
                    continue
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
                while self._jobs:
                    job, future = self._jobs.popleft()
                    if job is None:
                        return
                    try:
                        future.set_result(job())
                    except BaseException as error:
                        future.set_exception(error)
