"""Handling of Ctrl-C and fork for the environments of this process.

Python runs signal handlers between its own instructions, so a compiled program delays
them until it has returned. A wake-up descriptor is written at once; the thread that
reads it stops the environments with a native hub, which ends the program, and
``KeyboardInterrupt`` follows in the main thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

ENVS: weakref.WeakSet[Any] = weakref.WeakSet()  # open ones, each a ``ProcessEnv``
_lock = threading.Lock()
_pipe: tuple[int, int] | None = None  # None while no descriptor is in use
_users = 0


def acquire() -> int:
    """Return a descriptor that is readable after a signal; ``release`` it."""
    global _pipe, _users
    with _lock:
        if _pipe is None:
            _pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        _users += 1
        return _pipe[0]


def release() -> None:
    """Undo one ``acquire`` when the descriptor is no longer polled."""
    global _pipe, _users
    with _lock:
        _users -= 1
        if _users == 0:
            pipe, _pipe = _pipe, None
            for descriptor in pipe or ():
                os.close(descriptor)


def stop_envs(descriptor: int) -> bool:
    """Read the descriptor; if it was Ctrl-C, stop environments with a hub."""
    with contextlib.suppress(BlockingIOError):
        if signal.SIGINT in os.read(descriptor, 1024):
            for env in list(ENVS):
                if env.hub is not None:
                    env.stop()
    return True


@contextlib.contextmanager
def guard() -> Iterator[None]:
    """Let Ctrl-C end a call in this context, if it raises KeyboardInterrupt.

    A program's own wake-up descriptor or handler of Ctrl-C remains in place.
    """
    if (
        _pipe is None
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    acquire()
    previous = signal.set_wakeup_fd(_pipe[1], warn_on_full_buffer=False)
    if previous != -1:
        signal.set_wakeup_fd(previous)
    try:
        yield
    finally:
        if previous == -1:
            signal.set_wakeup_fd(-1)
        release()


_warned_of_fork = False


def _before_fork() -> None:
    global _warned_of_fork
    if _warned_of_fork or not any(env.num_workers and env.engine.ok for env in ENVS):
        return
    _warned_of_fork = True
    warnings.warn(
        "this process is forked while environments run in worker processes: the child "
        "must not use them, and TensorFlow hangs in a forked child; start processes "
        "with multiprocessing's 'spawn' method or subprocess",
        RuntimeWarning,
        stacklevel=2,
    )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)
