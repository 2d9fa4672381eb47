"""The worker of the server: it owns the model, the log and the requests."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.serving.server.app import App
from tfagents_batch.serving.server.batching import Batches
from tfagents_batch.serving.server.decision_log import DecisionLog, warn
from tfagents_batch.serving.server.endpoints import Endpoints, parent_of
from tfagents_batch.serving.server.models import Models
from tfagents_batch.serving.server.settings import ServerSettings

TICK_SECONDS = 0.5  # between looks at slow bodies and at files that end
_STOP_SECONDS = 5.0  # in which requests may end after a stop


def load(
    settings: ServerSettings, started: Callable[[str], None], sender: Any, current: Any
) -> ServerWorker:
    """Return the application of a worker, or hand the error to the supervisor.

    Args:
      settings: of the server.
      started: called with the version of the export when requests are taken.
      sender: connection to the supervisor, for an error.
      current: memory that is shared with the supervisor and all workers: the folder of
        the export that the worker before this one served last.
    """
    # A terminal sends Ctrl-C to all processes; the supervisor ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.ExitStack() as stack:
        try:
            app = build(settings, stack, current)
        except (UserError, SaveError) as error:
            sender.send(error)
            supervisor = multiprocessing.parent_process()
            assert supervisor is not None
            os.kill(supervisor.pid, signal.SIGTERM)
            supervisor.join(60)  # it ends this process
            raise
        return ServerWorker(app, started, sender, stack.pop_all())


def build(
    settings: ServerSettings, stack: contextlib.ExitStack, current: Any = None
) -> App:
    """Return the application of a server; errors are those of ``run.serve``.

    Args:
      settings: of the server.
      stack: closes files and threads.
      current: see ``load``; None without a supervisor.
    """
    models = _models(settings, current)
    stack.callback(models.close)
    log = None
    if settings.log:
        log = DecisionLog(settings.log, settings.rotate_rows, settings.rotate_seconds)
        stack.callback(log.close)
    threads = ThreadPoolExecutor(1, "model")
    stack.callback(threads.shutdown)

    def batches(work: Any) -> Batches:
        return Batches(
            work,
            lambda: models.current.slow,
            threads,
            lambda: app.active - app.arrivals.slow,
            settings.max_wait_ms / 1000,
            settings.max_batch,
        )

    app = App(Endpoints(models, log, batches, parent_of(settings.export)), settings)
    return app


def _models(settings: ServerSettings, current: Any) -> Models:
    """Load the export of the worker before, or else that of the start."""

    def remember(folder: str) -> None:
        if current is not None:
            current.value = os.fsencode(folder)

    options = settings.threads, bool(settings.log), remember
    before = os.fsdecode(current.value) if current is not None else ""
    if before and before != settings.export:
        try:
            return Models(before, *options)
        except UserError as error:
            warn(f"{error}; serving --export instead")
    return Models(settings.export, *options)


class ServerWorker:
    """Application as Granian calls it, with the regular work beside the requests."""

    def __init__(self, app: App, started: Any, sender: Any, stack: Any):
        self.__rsgi__ = app.__rsgi__
        self._app, self._stack = app, stack
        self._started, self._sender = started, sender
        self._log, self._endpoints = app.endpoints.log, app.endpoints
        self._disk = ThreadPoolExecutor(1, "log")
        stack.callback(self._disk.shutdown)

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start, in the event loop, before the first request."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # The loop wakes up as well, and calls what Granian has set.
        signal.signal(signal.SIGTERM, self._end_in_time)
        supervisor = multiprocessing.parent_process()
        assert supervisor is not None
        gone = supervisor.sentinel

        def stop() -> None:  # in order, because the supervisor is gone
            loop.remove_reader(gone)
            os.kill(os.getpid(), signal.SIGTERM)

        loop.add_reader(gone, stop)
        self._ticks = loop.create_task(self._tick())
        gc.collect()
        gc.freeze()  # what lasts is not looked at again
        loop.call_soon(self._start)  # when Granian has opened the port

    def _end_in_time(self, number: int, frame: Any) -> None:
        """End in order also if Granian waits for clients that send nothing more."""
        self._endpoints.ready = False
        timer = threading.Timer(_STOP_SECONDS, self._end_now)
        timer.daemon = True
        timer.start()

    def _end_now(self) -> None:
        try:
            if self._log is not None:
                self._log.close()
        except SaveError as error:
            self._sender.send(error)
        finally:
            os._exit(0)

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop, after the last request."""
        self._ticks.cancel()
        loop.run_until_complete(asyncio.gather(self._ticks, return_exceptions=True))
        try:
            self._stack.close()
        except SaveError as error:  # of a file of the log that cannot be completed
            self._sender.send(error)

    def _start(self) -> None:
        self._endpoints.ready = True
        self._started(self._endpoints.models.current.description.version)

    async def _tick(self) -> None:
        """Do the regular work again and again; an error does not end it."""
        loop, said = asyncio.get_running_loop(), set[str]()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                self._app.arrivals.end_slow()
                if self._log is not None:
                    rotate = self._log.rotate_if_due  # waits for the disk
                    problems = await loop.run_in_executor(self._disk, rotate)
                    for problem in set(problems) - said:  # not every second
                        warn(problem)
                    said = set(problems)
            except Exception as error:
                warn(f"{type(error).__name__}: {error}")
