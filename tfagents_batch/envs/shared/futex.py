"""How a worker waits for the native hub and answers it: Linux futexes, by ctypes.

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

# Of the system call. Other machines than this one may show others a reply before the
# rows it is for, and Python has no barrier to prevent that.
_NUMBERS = {"x86_64": 202}
_WAIT, _WAKE_OP = 0, 5
# For WAKE_OP: add -1 to the second word; wake its sleeper if it was 1, or less, because
# the hub may have seen the reply, and set the word for its next command, before this.
# (The four fields are operation, comparison, their arguments; see futex(2).)
_ADD, _AT_MOST = 1, 3
_LAST_ONE = _ADD << 28 | _AT_MOST << 24 | (-1 & 0xFFF) << 12 | 1
_PARENT_CHECK_SECONDS = 1


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def supported() -> bool:
    """Is the number of the system call known for this machine?"""
    return platform.machine() in _NUMBERS


class Doorbell:
    """A worker's side of the native hub's signals.

    Args:
      memory: the pool's mapping; it must stay.
      plan: its layout.
      worker: index of this worker.
      poll: microseconds to look, and give the core away, before sleeping.
    """

    def __init__(self, memory: Any, plan: layout.Layout, worker: int, poll: int):
        num_workers = plan.num_workers
        self._words = layout.control(memory, worker)
        self._learner = layout.control(memory, num_workers)
        self._seen = self._words[layout.COMMAND_SEQUENCE]  # perhaps a predecessor's
        self._parent = os.getppid()
        self._patience = poll * 1000
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        number = ctypes.c_long(_NUMBERS[platform.machine()])
        command, pending, nobody = (
            ctypes.c_void_p(start + 4 * (layout.WORDS * line + word))
            for line, word in (
                (worker, layout.COMMAND_SEQUENCE),
                (num_workers + plan.group(worker), layout.PENDING),
                (num_workers, layout.NOBODY),
            )
        )
        limit = ctypes.byref(_TimeSpec(_PARENT_CHECK_SECONDS, 0))
        sleep = ctypes.CDLL(None).syscall  # without the GIL: threads may run
        wake = ctypes.PyDLL(None).syscall  # with it: never blocks
        one, wait = ctypes.c_uint32, ctypes.c_int(_WAIT)
        self._sleep = lambda seen: sleep(number, command, wait, one(seen), limit)
        answer = (
            *(number, nobody, ctypes.c_int(_WAKE_OP), ctypes.c_int(1)),
            *(ctypes.c_void_p(1), pending, ctypes.c_uint32(_LAST_ONE)),
        )
        self._wake = lambda: wake(*answer)

    def wait(self) -> tuple[int, int]:
        """Sleep until there is a command; its code and its number.

        Raises:
          SystemExit: if the learner is gone.
        """
        words, seen = self._words, self._seen
        if self._patience:
            rest, clock = os.sched_yield, time.perf_counter_ns
            deadline = clock() + self._patience
            while words[layout.COMMAND_SEQUENCE] == seen and clock() < deadline:
                rest()
        while words[layout.COMMAND_SEQUENCE] == seen:
            self._sleep(seen)
            if os.getppid() != self._parent:
                raise SystemExit(1)
        self._seen = seen = words[layout.COMMAND_SEQUENCE]
        return words[layout.COMMAND], seen

    def seed(self) -> int:
        """Of the reset that is asked for."""
        return layout.seed(self._learner)

    def answer(self, sequence: int, status: int) -> None:
        """Say that a command was obeyed; the last worker wakes the hub."""
        words = self._words
        words[layout.STATUS] = status
        words[layout.REPLY_SEQUENCE] = sequence
        self._wake()
