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
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._waiting = 0  # programs that it waits for: one may call another

    def call(self, function: Callable[[], Any], ending: Callable[[], bool]) -> Any:
        """Call a function in the owner's thread, or here if the owner does not wait.

        Args:
          function: a function without arguments.
          ending: whether an answer is no longer needed. It is asked every half second,
            because the owner may be in a call that never returns.

        Raises:
          Abandoned: if the owner does not finish the call. It may still begin it.
        """
        if self.is_current or not self._waiting:
            return function()
        call = _Call(function)
        self._queue.put(call)
        while not call.over.acquire(timeout=_LOOK_SECONDS):
            if ending():
                raise Abandoned
            if not self._waiting:  # it ended its wait before it saw the call
                if call.begin():
                    return function()
                raise Abandoned
        if call.error is not None:
            raise call.error
        return call.result

    def run(self, program: Callable[[], Any], interrupted: Callable[[], None]) -> Any:
        """Run a program in a helper thread, and make its calls in this thread.

        Args:
          program: a function without arguments.
          interrupted: called if this thread is interrupted, for example by Ctrl-C. Then
            calls are no longer made. It must make ``ending`` of ``call`` true, so that
            the program ends soon.

        Returns:
          the program's result; its exceptions are raised here.
        """
        context = contextvars.copy_context()
        work = _Call(lambda: context.run(program))

        def helper() -> None:
            work.make()
            self._queue.put(None)

        thread = threading.Thread(target=helper, name="tfagents_batch-program")
        thread.daemon = True  # so that a program that never ends lets the process end
        self._waiting += 1
        try:
            thread.start()
            while not work.done:
                call = self._queue.get()
                if call is not None:
                    call.make(interruptible=True)
        except BaseException:
            interrupted()
            raise
        finally:
            self._waiting -= 1
            if thread.ident is not None:
                _join(thread)
        self._finish_calls()
        if work.error is not None:
            raise work.error
        return work.result

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
                call.make(interruptible=True)


class _Call:
    """A function to be called once; ``over`` is released when it has returned."""

    def __init__(self, function: Callable[[], Any]):
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.over = threading.Lock()
        self.over.acquire()
        self._function = function
        self._claim = threading.Lock()

    def begin(self) -> bool:
        """Return whether the caller is the one that makes the call."""
        return self._claim.acquire(blocking=False)

    def make(self, interruptible: bool = False) -> None:
        """Make the call, unless another thread does.

        Args:
          interruptible: raise exceptions here that are not errors of the function:
            signal handlers raise KeyboardInterrupt and others.
        """
        if not self.begin():
            return
        try:
            self.result = self._function()
        except Exception as error:
            self.error = error
        except BaseException as error:
            self.error = Abandoned() if interruptible else error
            if interruptible:
                raise
        finally:
            self.done = True
            self.over.release()


def _join(thread: threading.Thread) -> None:
    """Wait for a thread, also if a signal handler raises an exception meanwhile."""
    while True:
        try:
            return thread.join()
        except BaseException:
            continue
