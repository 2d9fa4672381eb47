"""Connection to Ray: to a cluster, or to one that is started on this machine."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfagents_batch.distribute import ray_janitor, resources
from tfagents_batch.errors import UserError, first_line

_LOCAL = "127.0.0.1"
_TOKEN = Path("~/.ray/auth_token")  # where Ray looks for it
# Read when Ray is imported.
_VARIABLES = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # one machine: only the loopback address
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent to Ray's makers
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_NUM_REDIS_GET_RETRIES": "5",  # seconds; 20 is usual, also for a wrong token
    "RAY_ENABLE_AUTO_CONNECT": "0",  # a late call would start another cluster
}


def require() -> Any:
    """Return the package; a UserError says if it is not installed."""
    for name, value in _VARIABLES.items():
        os.environ.setdefault(name, value)
    known = "RAY_AUTH_TOKEN" in os.environ or _TOKEN.expanduser().exists()
    if known and "ray" not in sys.modules:  # else only the processes it starts read it
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        import ray
    except ImportError:
        raise UserError(
            'Ray is not installed; install it with pip install "tfagents_batch[ray]"'
        ) from None
    return ray


@contextlib.contextmanager
def session(address: str | None, cpus: int) -> Iterator[Any]:
    """Yield the package, connected; disconnect if this function has connected.

    Args:
      address: ``host:port`` of a cluster's head, or "auto" for one on this machine that
        runs already. None starts one for this process, which ends with it.
      cpus: CPUs of a cluster that is started here, which may be more than there are.
    """
    ray = require()
    if ray.is_initialized():
        yield ray
        return
    quiet = {"log_to_driver": False, "configure_logging": False}
    with contextlib.ExitStack() as stack:
        if address is None:
            folder = stack.enter_context(_own_folder())
            start = functools.partial(_start, ray, cpus, folder, quiet)
        else:
            start = functools.partial(_connect, ray, address, quiet)
        stack.callback(ray.shutdown)
        with _own_signals():
            start()
        yield ray


@contextlib.contextmanager
def _own_folder() -> Iterator[str]:
    """Yield a folder for Ray, which is removed however this process ends."""
    folder = tempfile.mkdtemp(prefix="tfb_ray_")  # sockets allow few letters
    command = [sys.executable, "-I", "-S", ray_janitor.__file__, folder]
    none = subprocess.DEVNULL
    streams = {"stdin": subprocess.PIPE, "stdout": none, "stderr": none}
    # Signals of the terminal are for this process; that one ends with its input.
    with subprocess.Popen(command, start_new_session=True, **streams):
        yield folder


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Put the handlers of this process back: Ray's would end it at once."""
    numbers = signal.SIGINT, signal.SIGTERM
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # not the main thread
            for number, handler in before.items():
                signal.signal(number, handler)


def check_address(address: str) -> None:
    """Check that something listens at the address of a head."""
    address = address.removeprefix("ray://")
    example, advice = "10.0.0.1:6379", "start the head there (ray start --head)"
    resources.check_address("Ray", [address], example, advice)


def spilled_bytes(ray: Any) -> int:
    """Return how much Ray has written to disks because its memory was full."""
    from ray._private import internal_api

    try:
        address = ray.get_runtime_context().gcs_address
        state = internal_api.get_state_from_address(address)
        reply = internal_api.get_memory_info_reply(state, timeout_seconds=2.0)
        return int(reply.store_stats.spilled_bytes_total)
    except Exception:  # a private function; without it nothing is counted
        return 0


def _start(ray: Any, cpus: int, folder: str, quiet: dict[str, Any]) -> None:
    # Its warning says that there is a token.
    logging.getLogger("ray").setLevel(logging.ERROR)
    start = {"address": "local", "num_cpus": cpus, "include_dashboard": False}
    try:
        ray.init(**start, **quiet, _node_ip_address=_LOCAL, _temp_dir=folder)
    except Exception as error:
        raise UserError(
            f"Ray does not start on this machine ({first_line(error)}); see whether "
            "its processors or its memory are busy, and whether the folder of "
            f"temporary files, {tempfile.gettempdir()}, has room and a short name"
        ) from None


def _connect(ray: Any, address: str, quiet: dict[str, Any]) -> None:
    if address != "auto":
        check_address(address)
    try:
        ray.init(address=address, **quiet)
    except Exception as error:
        text = str(error).lower()
        if "version" in text and "mismatch" in text:
            advice = "install the same versions of Python and Ray on every machine"
        else:  # something listens there: Ray does not say that it refuses the token
            advice = (
                "if it asks for a token, set RAY_AUTH_TOKEN to that of its head, which "
                "is in ~/.ray/auth_token there; see also `ray status` on its head"
            )
        raise UserError(
            f"Ray at {address} cannot be used ({first_line(error)}); {advice}"
        ) from None
