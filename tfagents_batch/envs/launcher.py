"""Starts and ends worker processes: fork and exec, never a bare fork.

After TensorFlow was used a forked child hangs in its first op; a fresh interpreter
that never imports TensorFlow is ready in a fraction of a second.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cloudpickle

from tfagents_batch.envs import failures, memory, protocol
from tfagents_batch.errors import UserError

TAIL_LINES = 50
CUT_OFF = (
    "lost its control socket: an environment has closed file descriptors that are not "
    "its own (os.closerange, or turning its process into a daemon)"
)
_TAIL_BYTES = 64 << 10
_STACK_SECONDS = 0.5  # to write a stack dump
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "BLIS_NUM_THREADS",
)


class Worker:
    """One worker process with its control socket, stack dumps and output.

    ``start`` belongs to a thread that lives as long as the pool: the kernel kills the
    worker when the thread that started it ends.

    Attributes:
      index: number of the worker.
      rows: indices of its environments in the batch.
      channel: the learner's end of the control socket, non-blocking.
      inbox: frames that arrive on it.
      pidfd: readable when the process has ended.
      output: reading end of its standard output and error, non-blocking.
      row: the row whose constructor runs; None otherwise.
    """

    def __init__(self, index: int, rows: range):
        self.index = index
        self.rows = rows
        self.row: int | None = None
        self.channel: socket.socket | None = None
        self.inbox: protocol.Inbox | None = None
        self.pidfd = self.output = -1
        self._dump = -1
        self._process: subprocess.Popen | None = None
        self._tail = bytearray()
        self._drain_lock = threading.Lock()

    def start(self, variables: Mapping[str, str]) -> None:
        """Launch the process.

        Args:
          variables: environment variables that override ours.

        Raises:
          OSError: if there are too few processes or descriptors left.
        """
        module = "tfagents_batch.envs.worker"
        with contextlib.ExitStack() as passed_on:
            self.channel, theirs = socket.socketpair()
            passed_on.callback(theirs.close)
            self.output, writing = os.pipe()
            passed_on.callback(os.close, writing)
            os.set_blocking(self.output, False)
            self._dump = os.memfd_create("tfagents_batch-stacks", os.MFD_CLOEXEC)
            numbers = [theirs.fileno(), self._dump, os.getpid()]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                pass_fds=(theirs.fileno(), self._dump),
                start_new_session=True,
                env=_variables(variables),
            )
        self.pidfd = os.pidfd_open(self._process.pid)
        self.channel.setblocking(False)
        self.inbox = protocol.Inbox(self.channel)

    @property
    def pid(self) -> int:
        """Process id, once started."""
        return self._process.pid

    def send(self, frame: bytes, descriptor: int | None, seconds: float) -> None:
        """Send a request.

        Raises:
          OSError: if the worker is gone or does not read within ``seconds``.
        """
        if descriptor is None and len(frame) == protocol.HEADER_SIZE:
            self.channel.send(frame)  # at most one is outstanding: it always fits
            return
        self.channel.settimeout(seconds)
        try:
            descriptors = [] if descriptor is None else [descriptor]
            sent = socket.send_fds(self.channel, [frame], descriptors)
            self.channel.sendall(frame[sent:])
        finally:
            self.channel.setblocking(False)

    def resident_bytes(self) -> int:
        """Memory in use; 0 if that cannot be told."""
        try:
            return memory.resident_bytes(self.pid)
        except (OSError, ValueError, IndexError, AttributeError):
            return 0

    def kill(self) -> None:
        """End it at once, without a chance to object."""
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal, if the process is there."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, number)

    def stack(self) -> str:
        """The stacks of a hung worker's threads, or why there are none."""
        with contextlib.suppress(OSError), open(f"/proc/{self._process.pid}/stat") as f:
            if f.read().rpartition(")")[2].split()[0] in "Tt":
                return "<no stack: the process is stopped (SIGSTOP or a debugger)>"
        before = os.fstat(self._dump).st_size
        self.signal(signal.SIGUSR1)
        deadline = time.monotonic() + _STACK_SECONDS
        size = before
        while time.monotonic() < deadline and not ended([self], 0):
            time.sleep(0.02)
            last, size = size, os.fstat(self._dump).st_size
            if last == size > before:
                break
        return self.dump(before) or "<no stack: it did not answer SIGUSR1>"

    def dump(self, start: int = 0) -> str:
        """What faulthandler wrote, at a crash or on request."""
        size = os.fstat(self._dump).st_size - start
        data = os.pread(self._dump, min(max(size, 0), failures.LIMIT), start)
        return data.decode("utf-8", "backslashreplace")

    def drain(self) -> bool:
        """Take what was printed; false when there will be no more."""
        with self._drain_lock:
            while self.output >= 0:
                try:
                    data = os.read(self.output, 1 << 16)
                except BlockingIOError:
                    return True
                if not data:
                    return False
                self._tail += data
                del self._tail[:-_TAIL_BYTES]
            return False

    def tail(self) -> str:
        """The last lines of its standard output and error."""
        self.drain()
        lines = self._tail.decode("utf-8", "backslashreplace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    def reap(self) -> str:
        """Wait for a process that has ended or was killed; say how it ended."""
        if self._process.returncode is None:
            # Its number, which names its group, cannot have been reused yet. What it
            # started must not outlive it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        return how_it_ended(self._process.wait())

    @property
    def exit_code(self) -> int | None:
        """Once reaped; negative for a signal."""
        return self._process.returncode if self._process else None

    def close(self) -> None:
        """Close the descriptors."""
        with self._drain_lock:
            descriptors = [self.pidfd, self.output, self._dump]
            self.pidfd = self.output = self._dump = -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)
        if self.channel is not None:
            self.channel.close()


def end(workers: Sequence[Worker], seconds: float) -> None:
    """Wait for processes to end, and kill those that do not.

    Args:
      workers: running or ended, not reaped.
      seconds: before SIGKILL; workers leave SIGTERM to the learner.
    """
    deadline = time.monotonic() + seconds
    running = list(workers)
    while running and (left := deadline - time.monotonic()) > 0:
        gone = ended(running, left)
        running = [worker for worker in running if worker not in gone]
    for worker in running:
        worker.kill()


def ended(workers: Sequence[Worker], seconds: float) -> list[Worker]:
    """Wait until one of the processes has ended; those that have."""
    poll = select.poll()
    known = {}
    for worker in workers:
        pidfd = worker.pidfd  # another thread may close it
        if pidfd >= 0:
            poll.register(pidfd, select.POLLIN)
            known[pidfd] = worker
    if not known:
        return list(workers)
    return [known[fd] for fd, _ in poll.poll(seconds * 1000)]


def how_it_ended(code: int) -> str:
    """For example "was killed by SIGKILL" or "exited with code 3"."""
    if code == protocol.EXIT_FULL:
        return "ended because it used more memory than max_worker_mb"
    if code == protocol.EXIT_CUT_OFF:
        return CUT_OFF
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"


def pickled(constructors: Sequence[Callable[[], Any]], first_row: int) -> int:
    """Put cloudpickled constructors into anonymous memory; its descriptor.

    Raises:
      UserError: naming the environment whose constructor cannot be pickled.
    """
    try:
        data = cloudpickle.dumps(list(constructors))
    except Exception as error:
        row = first_row + _unpicklable(constructors)
        raise UserError(
            f"the constructor of env {row} cannot be sent to a worker process "
            f"({type(error).__name__}: {failures.clean(str(error))}); make everything "
            "it needs inside it, or use num_workers=0"
        ) from error
    descriptor = os.memfd_create("tfagents_batch-constructors", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    return descriptor


def search_path() -> list[str]:
    """Where the worker finds modules: where the learner finds them."""
    return [
        os.path.abspath(entry) if entry == "" or os.path.exists(entry) else entry
        for entry in sys.path
    ]


def _unpicklable(constructors: Sequence[Callable[[], Any]]) -> int:
    for index, constructor in enumerate(constructors):
        try:
            cloudpickle.dumps(constructor)
        except Exception:
            return index
    return 0


def _variables(overrides: Mapping[str, str]) -> dict[str, str]:
    """A worker's environment variables: one thread, no GPU, our module search path."""
    return {
        **os.environ,
        **dict.fromkeys(_THREAD_VARIABLES, "1"),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(search_path()),
        **overrides,
    }
