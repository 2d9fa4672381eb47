"""One thread for all that an environment of this process does.

An environment may hold what works only in the thread that created it: a database
connection, a window, an event loop, a signal handler. But TensorFlow makes the Python
calls of a program in threads of its own. So ``Owner.run`` runs such a program in a
helper thread. The owner, which would only wait for it, makes the calls meanwhile.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

_LOOK_SECONDS = 0.5  # between looks whether the owner will still answer
_local = threading.local()


class Abandoned(Exception):
    """The owner will not finish a call: it was interrupted, or its wait has ended."""


def current() -> Owner:
    """Return the owner that stands for this thread."""
    if not hasattr(_local, "owner"):
        _local.owner = Owner()
    return _local.owner


class Owner:
    """A thread that makes the calls of others while it waits for a program."""

    def __init__(self) -> None:
        self._ident = threading.get_ident()
        self._queue: SimpleQueue[tuple[Callable[[], Any], Future] | None]
        self._queue = SimpleQueue()
        self._waiting = 0  # programs that it waits for: one may call another

    def call(self, function: Callable[[], Any], ending: Callable[[], bool]) -> Any:
        """Call a function in the owner's thread, or here if the owner does not wait.

        ``ending`` is asked every half second whether an answer is no longer needed,
        because the owner may be in a call that never returns. ``Abandoned`` is raised
        if the owner does not finish the call; it may still begin it.
        """
        if self.is_current or not self._waiting:
            return function()
        future: Future = Future()
        self._queue.put((function, future))
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except TimeoutError:
                if future.done():  # just now, or the function has raised it
                    return future.result()
            if ending():
                raise Abandoned
            if not self._waiting:  # it ended its wait before it saw the call
                if future.cancel():
                    return function()
                raise Abandoned

    def run(self, program: Callable[[], Any], interrupted: Callable[[], None]) -> Any:
        """Run a program in a helper thread, and make its calls in this thread.

        If this thread is interrupted, for example by Ctrl-C, it makes no more calls.
        Then ``interrupted`` has to make ``ending`` of ``call`` true, so that the
        program ends soon. The program's exceptions are raised here.
        """
        context = contextvars.copy_context()
        work: Future = Future()

        def helper() -> None:
            try:
                work.set_result(context.run(program))
            except BaseException as error:
                work.set_exception(error)
            self._queue.put(None)

        thread = threading.Thread(target=helper, name="tfagents_batch-program")
        thread.daemon = True  # so that a program that never ends lets the process end
        self._waiting += 1
        try:
            thread.start()
            while not work.done():
                if (call := self._queue.get()) is not None:
                    _make(*call)
        except BaseException:
            interrupted()
            raise
        finally:
            self._waiting -= 1
            if thread.ident is not None:
                _join(thread)
        self._finish_calls()
        return work.result()

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is the owner."""
        return self._ident == threading.get_ident()

    def _finish_calls(self) -> None:
        """Make calls whose callers no longer wait, such as closing an environment."""
        while not self._waiting:
            try:
                call = self._queue.get_nowait()
            except Empty:
                return
            if call is not None:
                _make(*call)


def _make(function: Callable[[], Any], future: Future) -> None:
    """Make a call, unless its caller does; raise exceptions of signal handlers here."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except Exception as error:
        future.set_exception(error)
    except BaseException:
        future.set_exception(Abandoned())
        raise


def _join(thread: threading.Thread) -> None:
    """Wait for a thread, also if a signal handler raises an exception meanwhile."""
    while True:
        try:
            return thread.join()
        except BaseException:
            continue
