"""Signals between a worker and the native hub: Linux futexes through ctypes.

A futex is an aligned 32-bit word of shared memory on which a process can sleep until
another one wakes it; the kernel compares the word first, so no wake-up is lost.
"""

from __future__ import annotations

import ctypes
import os
import platform
import time
from typing import Any

from tfagents_batch.envs.shared import layout

# Numbers of the futex system call, for x86-64 only. With weaker memory ordering the hub
# could see a reply before its rows, and Python has no memory barrier.
_NUMBERS = {"x86_64": 202}
_WAIT, _WAKE_OP = 0, 5
# For WAKE_OP: subtract 1 from the second word, and wake its sleeper if the word was at
# most 1. It can be less than 1, because the hub may see the reply and set the word for
# its next command before this call.
# The four fields are operation, comparison and their arguments, see futex(2).
_ADD, _AT_MOST = 1, 3
_WAKE_IF_LAST = _ADD << 28 | _AT_MOST << 24 | (-1 & 0xFFF) << 12 | 1
_PARENT_CHECK_SECONDS = 1


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def supported() -> bool:
    """Return whether the number of the system call is known for this machine."""
    return platform.machine() in _NUMBERS


class Doorbell:
    """Worker's side of the signals of the native hub.

    The mapping of the shared memory must outlive it. It polls for some microseconds
    before it sleeps; polling yields the core.
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
        number = ctypes.c_long(_NUMBERS[platform.machine()])
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
