"""The server: a worker under the supervisor of Granian, an HTTP server in Rust.

The supervisor holds nothing that could break: no model, no log and no request. When
the worker dies, it starts another one, which completes the log and goes on with the
same export. When the supervisor dies, the worker ends in order.
"""

from __future__ import annotations

import ctypes
import functools
import multiprocessing
import os
import resource
import signal
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfagents_batch.errors import UserError
from tfagents_batch.serving.server.settings import ServerSettings, check

MOST_CONNECTIONS = 12_000  # each of which may take memory for a head
_OTHER_FILES = 64  # besides connections
_MEMORY = "narenas:1,dirty_decay_ms:500,muzzy_decay_ms:0,background_thread:true"
_LOGGING = {
    "formatters": {"line": {"format": "%(levelname)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {"_granian": {"handlers": ["stderr"], "propagate": False}},
}


def serve(settings: ServerSettings, say: Callable[[str], None]) -> None:
    """Serve an export until the process is asked to stop.

    Args:
      settings: of the server.
      say: called with a line when it takes requests; a function of a module.

    Raises:
      UserError: for an export or an address that cannot be served.
      SaveError: if the folder of the log cannot be written.
    """
    check(settings)
    # Without this, Granian keeps the memory of connections that have ended.
    os.environ.setdefault("_RJEM_MALLOC_CONF", _MEMORY)
    try:
        import orjson  # noqa: F401 - the worker needs it
        from granian import constants, http
        from granian.server import MPServer
    except ImportError as error:
        raise UserError(
            f"the server needs Granian and orjson ({error}); pip install "
            '"tfagents_batch[serve]"'
        ) from error
    host, port = _free_address(settings.host, settings.port)
    files = settings.tls_certificate, settings.tls_key
    certificate, key = (Path(path) if path else None for path in files)
    protocol = "https" if key else "http"
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    receiver, sender = multiprocessing.Pipe(duplex=False)
    load = functools.partial(
        _load,
        settings=settings,
        started=functools.partial(_started, say, f"{protocol}://{shown}:{port}"),
        sender=sender,
        current=multiprocessing.RawArray(ctypes.c_char, 1 << 14),
    )
    try:
        server = MPServer(
            "",  # ``load`` returns the application
            host,
            port,
            interface=constants.Interfaces.RSGI,
            http=constants.HTTPModes.http1,
            websockets=False,
            backlog=4096,  # connections that wait to be accepted
            backpressure=_connections(),
            http1_settings=http.HTTP1Settings(
                header_read_timeout=int(1000 * settings.idle_seconds),
                max_buffer_size=8192,  # of a head, and of a buffer of each connection
            ),
            log_level="error",
            log_dictconfig=_LOGGING,
            ssl_cert=certificate,
            ssl_key=key,
            respawn_failed_workers=True,
            workers_kill_timeout=8,  # seconds in which it has to end after a stop
        )
    except (OSError, ssl.SSLError) as error:
        raise UserError(
            f"--tls_certificate={certificate} and --tls_key={key} cannot be used: "
            f"{error}; expected PEM files"
        ) from error
    # A closed terminal ends the server, too; Granian would start another worker.
    hang_up = signal.SIGHUP, server.signal_handler_interrupt
    server.on_startup(lambda: signal.signal(*hang_up))
    # A worker that is stopped before it is ready ends at once.
    default = functools.partial(signal.signal, signal.SIGTERM, signal.SIG_DFL)
    os.register_at_fork(after_in_child=default)
    server.serve(target_loader=load, wrap_loader=False)
    if receiver.poll():  # the worker could not start
        raise receiver.recv()


def _started(say: Callable[[str], None], address: str, version: str) -> None:
    say(f"serving {version} on {address}")


def _load(**arguments: Any) -> Any:
    """Return the application; called in each worker."""
    from tfagents_batch.serving.server import worker

    return worker.load(**arguments)


def _free_address(host: str, port: int) -> tuple[str, int]:
    """Return an address where this machine can listen; Granian opens it by itself."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen()
        except OSError as error:
            raise UserError(
                f"the server cannot listen on {host}:{port}: "
                f"{error.strerror or error}; pass another --port or --host"
            ) from error
        return probe.getsockname()[:2]


def _connections() -> int:
    """Return how many connections there may be, and raise the limit of open files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MOST_CONNECTIONS + _OTHER_FILES
    if most != resource.RLIM_INFINITY:
        files = min(files, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return max(1, files - _OTHER_FILES)
