"""The server: models, logs and queues behind uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.serving.server import watching
from tfagents_batch.serving.server.app import App
from tfagents_batch.serving.server.batching import Batches
from tfagents_batch.serving.server.decision_log import DecisionLog
from tfagents_batch.serving.server.endpoints import Endpoints
from tfagents_batch.serving.server.models import Models
from tfagents_batch.serving.server.refused import Refused
from tfagents_batch.serving.server.settings import Settings, check
from tfagents_batch.serving.server.slow_clients import SlowClients

TICK_SECONDS = 1.0  # between looks at slow clients, files that end, and new exports
BACKLOG = 4096  # connections that wait to be accepted
KEEP_ALIVE_SECONDS = 75
STOP_SECONDS = 10  # in which requests may end after a stop
_SWITCH_SECONDS = 0.001  # until a thread that loads an export lets go of Python


def serve(settings: Settings, say: Callable[[str], None]) -> None:
    """Serve an export until the process is asked to stop.

    Args:
      settings: of the server.
      say: called with a line, when it takes requests and when an export is refused.

    Raises:
      UserError: for an export or an address that cannot be served.
      SaveError: if the folder of the log cannot be written.
    """
    check(settings)
    try:
        import uvicorn
    except ImportError as error:
        raise UserError(
            f'the server needs uvicorn ({error}); pip install "tfagents_batch[serve]"'
        ) from error
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listen(settings.host, settings.port))
        state = uvicorn.server.ServerState()
        app = build(settings, state, say, stack)

        class Server(uvicorn.Server):
            async def main_loop(self) -> None:
                # Requests are taken, and signals end the server in order, from here on.
                say(f"serving {app.version} on {_address(listener)}")
                await super().main_loop()

        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            ws="none",
            lifespan="on",
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            proxy_headers=False,
            server_header=False,
            date_header=False,
        )
        server = Server(config)
        server.server_state = state
        _raise_limit_of_files()
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.collect()
        gc.freeze()  # what lasts is not looked at again
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn has stopped in order
            server.run(sockets=[listener])


def build(
    settings: Settings,
    state: Any,
    say: Callable[[str], None],
    stack: contextlib.ExitStack,
) -> App:
    """Return the application of a server.

    Args:
      settings: of the server.
      state: of uvicorn, with ``tasks`` and ``connections``.
      say: called with a line, see ``serve``.
      stack: closes files and threads.

    Raises:
      UserError: for an export that cannot be served.
      SaveError: if the folder of the log cannot be written.
    """
    found = watching.newest(settings.export)
    # Where there is none, reading the folder says what is missing.
    folder = found.folder if found else settings.export
    models = Models(folder, settings.threads, bool(settings.log))
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
            lambda: len(state.tasks),
            settings.max_waiting,
            settings.max_batch,
        )

    slow = SlowClients(state.connections, settings.request_seconds)
    # Where the admin may take other exports from.
    parent = os.path.dirname(os.path.abspath(folder))
    endpoints = Endpoints(models, log, batches, slow, parent)
    ticks = Ticks(settings, models, log, found, slow, say)
    return App(
        endpoints,
        settings.token,
        settings.admin_token,
        settings.max_body,
        ticks.start,
        ticks.stop,
    )


class Ticks:
    """Regular work beside the requests.

    Args:
      settings: of the server.
      models: what a new export is loaded into.
      log: whose files end, or None.
      served: export that is served.
      slow: closes connections that are too slow.
      say: called with a line when another export takes over or is refused.
    """

    def __init__(
        self,
        settings: Settings,
        models: Models,
        log: DecisionLog | None,
        served: watching.Found | None,
        slow: SlowClients,
        say: Callable[[str], None],
    ):
        self._settings, self._models, self._log = settings, models, log
        self._seen, self._slow, self._say = served, slow, say
        self._tasks: list[asyncio.Task] = []
        self._disk = ThreadPoolExecutor(1, "log")

    def start(self) -> None:
        """Start the work in the running event loop."""
        works = [self._check_clients, self._rotate]
        if self._settings.watch:
            works.append(self._look_for_exports)
        self._tasks = [asyncio.create_task(_repeat(each)) for each in works]

    async def stop(self) -> None:
        """Stop it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._disk.shutdown()

    async def _check_clients(self) -> None:
        self._slow.check()

    async def _rotate(self) -> None:
        if self._log is not None:
            loop = asyncio.get_running_loop()
            for each in await loop.run_in_executor(self._disk, self._log.rotate_if_due):
                print(f"warning: {each}", file=sys.stderr)

    async def _look_for_exports(self) -> None:
        models, folder = self._models, self._settings.export
        found = await models.in_thread(watching.newest, folder)
        if found is None or found == self._seen:
            return
        try:
            model = await models.load(found.folder)
        except UserError as error:
            self._say(f"refused: {error}")
        except Refused:
            return  # another one is being loaded; this one's turn comes
        else:
            self._say(f"serving {model.description.version}")
        self._seen = found  # one that was refused is tried again after it changed


async def _repeat(work: Callable[[], Any]) -> None:
    """Await work again and again; an error is printed, and does not end it."""
    while True:
        await asyncio.sleep(TICK_SECONDS)
        try:
            await work()
        except Exception as error:
            print(f"warning: {type(error).__name__}: {error}", file=sys.stderr)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise UserError(
            f"the server cannot listen on {host}:{port}: {error.strerror or error}; "
            "pass another --port or --host"
        ) from error
    return listener


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _raise_limit_of_files() -> None:
    """Allow as many connections as the system lets this user have."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
