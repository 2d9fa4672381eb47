"""Main loop of a worker process: construct environments, step them on command.

Only the constructors are unpickled. Commands and replies are frames on a socket or
words of shared memory. Observations, actions and rewards are in shared memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import itertools
import mmap
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from tfagents_batch.devices.machine import resident_bytes
from tfagents_batch.envs.shared import failures, layout, protocol
from tfagents_batch.envs.worker import construction, inherited, stepper

_FUTEX = 202  # number of the system call on x86-64, see ``build.is_supported``
_WAIT, _WAKE_OP = 0, 5
# For WAKE_OP: subtract 1 from the second word, and wake its sleeper if the word was at
# most 1. It can be less than 1, because the hub may see the reply and set the word for
# its next command before this call.
# The four fields are operation, comparison and their arguments, see futex(2).
_ADD, _AT_MOST = 1, 3
_WAKE_IF_LAST = _ADD << 28 | _AT_MOST << 24 | (-1 & 0xFFF) << 12 | 1
_PARENT_CHECK_SECONDS = 1
_CHECK_EVERY = 64  # commands between checks of the memory in use


def serve(channel: socket.socket, pickles: int, shared: int) -> None:
    """Serve the learner's requests on the control socket until the end.

    Args:
      channel: control socket.
      pickles: descriptor of a file, which contains constructors at the first request.
      shared: descriptor of the shared memory, which is allocated at the second request.
    """
    inbox = protocol.Inbox(channel)
    started = _construct(channel, inbox, pickles)
    if started is None:
        return
    envs, facts, constructors, first_row = started
    request = inbox.wait()
    if request is None or request[0].command != protocol.ATTACH:
        return _close_all(envs)
    header, payload = request
    plan, worker = layout.Layout.from_json(payload["layout"]), payload["worker"]
    memory = mmap.mmap(shared, plan.size)
    os.close(shared)
    rows = slice(first_row, first_row + len(envs))
    arrays = layout.views(plan, memory, worker, rows)
    words = layout.control(memory, worker)
    words[layout.ROW] = layout.NO_ROW  # a previous worker may have left its row
    spare = None
    if payload["restarts"] is not None:
        seed = functools.partial(layout.seed, layout.control(memory, plan.num_workers))
        spare = construction.Spare(constructors, facts, payload["restarts"], seed)
    checks = payload["finite_check"], payload["strict"]
    batch = stepper.Stepper(envs, arrays, words, first_row, *checks, spare=spare)
    limit = payload["max_bytes"]
    full = memory_guard(limit)
    if limit is not None and (size := resident_bytes()) > limit:
        error = failures.Defect(
            f"its worker uses {size / 2**20:.0f} MB with new environments, but "
            f"max_worker_mb is {limit / 2**20:.0f}: use a higher limit"
        )
        failure = failures.from_error(error, env=first_row, phase="construct")
        channel.sendall(_frame(*header[:2], [failure], batch.notes))
        return _close_all(envs)
    if payload["takes_over"]:
        batch.take_over()
    if "tensorflow" in sys.modules:
        batch.notes.append(
            f"worker {worker} imported TensorFlow, which takes seconds and "
            "hundreds of megabytes: define its environment in a module without it"
        )
    if payload["cores"] is not None:
        with contextlib.suppress(OSError):  # the core may be offline
            os.sched_setaffinity(0, {payload["cores"][worker]})
    gc.collect()
    gc.freeze()  # the collector now skips existing objects, which are permanent
    bell = None
    if payload["native"]:  # before the reply, because a command may follow it
        bell = Doorbell(memory, plan, worker, payload["poll_microseconds"])
    channel.sendall(_frame(*header[:2], [], batch.notes))
    if bell is not None:
        _serve_hub(channel, inbox, batch, bell, full)
    else:
        _serve_frames(channel, inbox, batch, full)


def memory_guard(limit: int | None) -> Callable[[], bool]:
    """Return a function that checks whether this process exceeds ``limit`` bytes.

    It reads the memory every ``_CHECK_EVERY`` calls and remembers the result, because
    the process may end only after an episode.
    """
    if limit is None:
        return lambda: False
    calls, large = itertools.count(1), False

    def is_full() -> bool:
        nonlocal large
        if not large and next(calls) % _CHECK_EVERY == 0:
            large = resident_bytes() > limit
        return large

    return is_full


def _serve_frames(channel: socket.socket, inbox: Any, batch: Any, full: Any) -> None:
    """Serve the portable backend: commands and replies are frames."""
    while True:
        request = inbox.wait()
        if request is None or request[0].command == protocol.CLOSE:
            _end(batch, reported=request is not None)
        header, payload = request
        if header.command == protocol.STEP:
            faults = batch.step()
        else:
            faults = batch.reset(payload["seed"])
        reply = _frame(header.command, header.sequence, faults, batch.notes)
        channel.sendall(reply)
        if full() and batch.any_ended:
            _exit_full(batch)


def _serve_hub(
    channel: socket.socket, inbox: Any, batch: Any, bell: Any, full: Any
) -> None:
    """Serve the native backend: commands and replies are words, texts are frames."""
    wait, answer, step, notes = bell.wait, bell.answer, batch.step, batch.notes
    while True:
        code, sequence = wait()
        if code == protocol.STEP:
            faults = step()
        elif code == protocol.RESET:
            faults = batch.reset(bell.seed())
        else:
            _end(batch, reported=inbox.wait() is not None)
        # The hub continues at once; the frame is read later.
        answer(sequence, protocol.FAILED if faults else protocol.OK)
        if faults or notes:
            channel.sendall(_frame(code, sequence, faults, notes))
        if full() and batch.any_ended:
            _exit_full(batch)


def _exit_full(batch: Any) -> NoReturn:
    """End this process, so that a new one with less memory replaces it."""
    batch.close()
    sys.stderr.flush()
    os._exit(protocol.EXIT_FULL)


def _end(batch: Any, reported: bool) -> NoReturn:
    """Close the environments and exit."""
    faults = batch.close()
    for failure in faults:
        print(failures.to_exception(failure), file=sys.stderr)
    sys.exit(1 if faults and reported else 0)


def _construct(
    channel: socket.socket, inbox: protocol.Inbox, pickles: int
) -> tuple[list, list, list, int] | None:
    """Create the environments of the first request; None if the process must end.

    Returns:
      environments, their properties, their constructors and the index of the first.
    """
    request = inbox.wait()
    if request is None or request[0].command != protocol.CONSTRUCT:
        return None
    header, payload = request
    first_row = header.first_row
    sys.path[:] = payload["path"]
    if payload["pythonpath"] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = payload["pythonpath"]

    def reply(status: int, answer: Any = None, row: int = 0) -> None:
        request = header.command, header.sequence, answer
        channel.sendall(protocol.pack(*request, status=status, first_row=row))

    try:
        with open(pickles, "rb") as file:
            file.seek(0)
            load = pickle.Unpickler(file).load
            inherited.install(load())
            constructors = [load() for _ in range(payload["count"])]
    except BaseException as error:
        failure = failures.from_error(error, env=first_row, phase="construct")
        text = f"while it was unpickled in the worker: {failure.text}"
        failure = failure._replace(text=text)
        constructors, envs, facts = [], [], []
    else:
        envs, facts, failure = construction.construct(
            constructors, first_row, lambda row: reply(protocol.PROGRESS, row=row)
        )
    answer = {"facts": facts, "failures": [failure.to_json()] if failure else []}
    reply(protocol.FAILED if failure else protocol.OK, answer)
    if failure is not None:
        _close_all(envs)
        return None
    return envs, facts, constructors, first_row


def _frame(command: int, sequence: int, faults: list, notes: list[str]) -> bytes:
    """Return a reply that contains ``notes``; empty the list."""
    payload, status = None, protocol.OK
    if faults or notes:
        status = protocol.FAILED if faults else protocol.NOTES
        reported = [failure.to_json() for failure in faults]
        payload = {"failures": reported, "notes": list(notes)}
        notes.clear()
    return protocol.pack(command, sequence, payload, status=status)


def _close_all(envs: list[Any]) -> None:
    for env in envs:
        try:
            env.close()
        except BaseException as error:
            print(f"{type(error).__name__} in close()", file=sys.stderr)


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class Doorbell:
    """Worker's side of the signals of the native hub: Linux futexes through ctypes.

    A futex is an aligned 32-bit word of shared memory on which a process can sleep
    until another one wakes it; the kernel compares the word first, so no wake-up is
    lost. The mapping of the memory must outlive this object. It polls for some
    microseconds before it sleeps; polling yields the core.
    """

    def __init__(self, memory: Any, plan: layout.Layout, worker: int, poll: int):
        num_workers = plan.num_workers
        self._words = layout.control(memory, worker)
        self._learner = layout.control(memory, num_workers)
        # The last command may have been for a previous worker.
        self._seen = self._words[layout.COMMAND_SEQUENCE]
        self._parent = os.getppid()
        self._poll_nanoseconds = poll * 1000
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        number = ctypes.c_long(_FUTEX)
        command, pending, unused = (
            ctypes.c_void_p(start + 4 * (layout.WORDS * line + word))
            for line, word in (
                (worker, layout.COMMAND_SEQUENCE),
                (num_workers + plan.group(worker), layout.PENDING),
                (num_workers, layout.UNUSED),
            )
        )
        limit = ctypes.byref(_TimeSpec(_PARENT_CHECK_SECONDS, 0))
        sleep = ctypes.CDLL(None).syscall  # releases the GIL, so other threads run
        wake = ctypes.PyDLL(None).syscall  # keeps the GIL, because it never blocks
        one, wait = ctypes.c_uint32, ctypes.c_int(_WAIT)
        self._sleep = lambda seen: sleep(number, command, wait, one(seen), limit)
        answer = (
            *(number, unused, ctypes.c_int(_WAKE_OP), ctypes.c_int(1)),
            *(ctypes.c_void_p(1), pending, ctypes.c_uint32(_WAKE_IF_LAST)),
        )
        self._wake = lambda: wake(*answer)

    def wait(self) -> tuple[int, int]:
        """Wait for a command; return its code and its number.

        Raises:
          SystemExit: if the learner has ended.
        """
        words, seen = self._words, self._seen
        if self._poll_nanoseconds:
            yield_core, clock = os.sched_yield, time.perf_counter_ns
            deadline = clock() + self._poll_nanoseconds
            while words[layout.COMMAND_SEQUENCE] == seen and clock() < deadline:
                yield_core()
        while words[layout.COMMAND_SEQUENCE] == seen:
            self._sleep(seen)
            if os.getppid() != self._parent:
                raise SystemExit(1)
        self._seen = seen = words[layout.COMMAND_SEQUENCE]
        return words[layout.COMMAND], seen

    def seed(self) -> int:
        """Return the seed of the requested reset."""
        return layout.seed(self._learner)

    def answer(self, sequence: int, status: int) -> None:
        """Report that a command is done; the last worker wakes the hub."""
        words = self._words
        words[layout.STATUS] = status
        words[layout.REPLY_SEQUENCE] = sequence
        self._wake()
