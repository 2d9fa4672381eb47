"""Start and end of worker processes, by fork and exec.

Workers are fresh interpreters without TensorFlow, ready in a fraction of a second. A
forked child would hang in its first TensorFlow op. ``crash_failure``,
``timeout_failure`` and ``protocol_failure`` return after the process has ended, so that
its rows can be given to another one.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import connection
from typing import Any

import cloudpickle

from tfagents_batch.devices import machine
from tfagents_batch.envs.shared import failures, layout, protocol
from tfagents_batch.envs.shared.failures import Context, Failure
from tfagents_batch.errors import UserError

TAIL_LINES = 50
CUT_OFF = (
    "lost its control socket: an environment has closed file descriptors that are not "
    "its own (os.closerange, or turning its process into a daemon)"
)
_END_SECONDS = 1.0  # wait for a process that has closed its socket
_TAIL_BYTES = 64 << 10
_STACK_SECONDS = 0.5  # wait for a stack dump
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "BLIS_NUM_THREADS",
)


class Worker:
    """Worker process with its control socket, stack dumps and output.

    ``start`` belongs to a thread that lives as long as the worker: the kernel kills the
    worker when the thread that started it ends.
    """

    channel: socket.socket  # the learner's end, non-blocking; from ``start`` on
    inbox: protocol.Inbox  # frames that arrive on it

    def __init__(self, index: int, rows: range):
        self.index = index
        self.rows = rows  # indices of its environments in the batch
        self.row: int | None = None  # of the constructor that is running
        self.pidfd = -1  # readable when the process has ended
        self.output = -1  # of its standard output and error, non-blocking
        self._dump = self._constructors = -1
        self._process: subprocess.Popen | None = None
        self._tail = bytearray()
        self._drain_lock = threading.Lock()

    def start(self, variables: Mapping[str, str], memory: int) -> None:
        """Start the process; an OSError if too few processes or files are left."""
        module = "tfagents_batch.envs.worker.main"
        with contextlib.ExitStack() as child_ends:
            self.channel, theirs = socket.socketpair()
            child_ends.callback(theirs.close)
            self.output, writing = os.pipe()
            child_ends.callback(os.close, writing)
            os.set_blocking(self.output, False)
            self._dump = os.memfd_create("tfagents_batch-stacks", os.MFD_CLOEXEC)
            name = "tfagents_batch-constructors"
            self._constructors = os.memfd_create(name, os.MFD_CLOEXEC)
            inherited = [theirs.fileno(), self._dump, self._constructors, memory]
            numbers = [os.getpid(), *inherited]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                pass_fds=inherited,
                start_new_session=True,
                env={
                    **os.environ,
                    **dict.fromkeys(_THREAD_VARIABLES, "1"),
                    "CUDA_VISIBLE_DEVICES": "",
                    "PYTHONPATH": os.pathsep.join(search_path()),
                    **variables,
                },
            )
        self.pidfd = os.pidfd_open(self._process.pid)
        self.channel.setblocking(False)
        self.inbox = protocol.Inbox(self.channel)

    @property
    def pid(self) -> int:
        """Return the process id; only after ``start``."""
        assert self._process is not None
        return self._process.pid

    def store(self, constructors: memoryview) -> None:
        """Write what the worker will unpickle, once."""
        descriptor, self._constructors = self._constructors, -1
        with open(descriptor, "wb") as file:
            file.write(constructors)

    def send(self, frame: bytes, seconds: float) -> None:
        """Send a request; OSError if the worker ended, or reads after ``seconds``."""
        if len(frame) == protocol.HEADER_SIZE:
            self.channel.send(frame)  # at most one is pending, so the buffer has space
            return
        self.channel.settimeout(seconds)
        try:
            self.channel.sendall(frame)
        finally:
            self.channel.setblocking(False)

    def resident_bytes(self) -> int:
        """Return the memory in use in bytes; 0 if it is unknown."""
        return machine.resident_bytes(self.pid)

    def kill(self) -> None:
        """Kill the process if it runs, and wait for its end."""
        if self.pidfd >= 0 and self.exit_code is None:
            self.signal(signal.SIGKILL)
            self.reap()

    def signal(self, number: int) -> None:
        """Send a signal if the process is running."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, number)

    def stack(self) -> str:
        """Return the stacks of a hung worker's threads, or why there are none."""
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
        """Return the output of faulthandler after a crash or a request."""
        size = os.fstat(self._dump).st_size - start
        data = os.pread(self._dump, min(max(size, 0), failures.LIMIT), start)
        return data.decode("utf-8", "backslashreplace")

    def drain(self) -> bool:
        """Read the output; return false at its end."""
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
        """Return the last lines of its standard output and error."""
        self.drain()
        lines = self._tail.decode("utf-8", "backslashreplace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    def reap(self) -> str:
        """Wait for an ended process; return how, such as "exited with code 3"."""
        assert self._process is not None
        if self._process.returncode is None:
            # Also end the processes that it started. Its id, which is also the group's,
            # is not reused before ``wait``.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        if code == protocol.EXIT_FULL:
            return "ended because it used more memory than max_worker_mb"
        if code == protocol.EXIT_CUT_OFF:
            return CUT_OFF
        if code >= 0:
            return f"exited with code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of a reaped process; negative for a signal."""
        return self._process.returncode if self._process else None

    def close(self) -> None:
        """Close the descriptors."""
        with self._drain_lock:
            descriptors = [self.pidfd, self.output, self._dump, self._constructors]
            self.pidfd = self.output = self._dump = self._constructors = -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)
        if hasattr(self, "channel"):
            self.channel.close()


def end(workers: Sequence[Worker], seconds: float) -> None:
    """Wait until the processes end; kill those that run after ``seconds``."""
    deadline = time.monotonic() + seconds
    running = list(workers)
    while running and (left := deadline - time.monotonic()) > 0:
        finished = ended(running, left)
        running = [worker for worker in running if worker not in finished]
    for worker in running:
        worker.signal(signal.SIGKILL)


def ended(workers: Sequence[Worker], seconds: float) -> list[Worker]:
    """Wait until a process has ended; return all that have ended."""
    pairs = [(worker.pidfd, worker) for worker in workers]
    known = {pidfd: worker for pidfd, worker in pairs if pidfd >= 0}  # others are over
    if not known:
        return list(workers)
    ready: list[Any] = connection.wait(list(known), seconds)
    return [known[pidfd] for pidfd in ready]


def crash_failure(
    worker: Worker, row: int | None, phase: str | None, context: Context
) -> Failure:
    """Describe the failure of a worker that ended or closed its socket."""
    # A process that ends closes its socket shortly before.
    cut_off = worker.inbox.closed and not ended([worker], _END_SECONDS)
    end([worker], 0.2)
    text = worker.reap()
    if cut_off:  # the exit code only shows the kill above
        text = CUT_OFF
    if row == layout.NO_ROW:
        phase = None
        text += "" if text == CUT_OFF else " while idle"
    tail = worker.tail()
    output = f"Last lines of its output:\n{tail}" if tail else ""
    details = "\n\n".join(filter(None, [worker.dump(), output]))
    return _failure(failures.CRASH, worker, row, phase, context, text, details)


def timeout_failure(
    worker: Worker, row: int | None, phase: str, context: Context
) -> Failure:
    """End a worker that did not answer in time and describe where it was."""
    text = "did not answer before its deadline and was killed (stack below)"
    stack = worker.stack()
    worker.kill()
    return _failure(failures.TIMEOUT, worker, row, phase, context, text, stack)


def protocol_failure(
    worker: Worker, row: int | None, phase: str, context: Context, error: Exception
) -> Failure:
    """End a worker that sent an invalid frame."""
    worker.kill()
    text = f"sent bytes that are not a valid frame: {error}"
    return _failure(failures.PROTOCOL, worker, row, phase, context, text, "")


def _failure(
    kind: str,
    worker: Worker,
    row: int | None,
    phase: str | None,
    context: Context,
    text: str,
    details: str,
) -> Failure:
    rows = worker.rows
    if row not in rows:
        row = rows.start if phase and len(rows) == 1 else None
    known = {} if row is None else context(row)
    if row is None or phase == protocol.NAMES[protocol.ATTACH]:
        text = f"(envs {rows.start} to {rows.stop - 1}) {text}"
    return Failure(
        kind,
        env=row,
        worker=worker.index,
        text=failures.clean(text),
        traceback_text=failures.clean(details),
        **{"phase": phase, **known},
    )


def pickled(
    constructors: Sequence[Callable[[], Any]], first_row: int, state: dict[str, Any]
) -> memoryview:
    """Return the pickle of a worker's state, see ``inherited``, and of constructors.

    A UserError gives the row of a constructor that cannot be pickled.
    """
    buffer = io.BytesIO()
    pickler = cloudpickle.Pickler(buffer)  # shared objects are pickled once
    pickler.dump(state)
    for row, constructor in enumerate(constructors, first_row):
        try:
            pickler.dump(constructor)
        except Exception as error:
            text = f"{type(error).__name__}: {failures.clean(str(error))}"
            raise UserError(
                f"the constructor of env {row} cannot be sent to a worker process "
                f"({text}); create everything it needs inside it, or use num_workers=0"
            ) from error
    return buffer.getbuffer()


def search_path() -> list[str]:
    """Return the learner's module search path for the worker."""
    return [os.path.abspath(x) if not x or os.path.exists(x) else x for x in sys.path]
