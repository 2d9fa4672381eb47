"""Handle Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 while a compiled program runs.

Python runs a signal handler only when the running ``tf.function`` returns, seconds
later, and its default handler then raises in the middle of TensorFlow's error
conversion. So the handlers here only set flags. A thread does what must happen at once:
it reads the wake-up descriptor, to which the interpreter's C handler writes the
signal's number even if the main thread is busy.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

GRACE_SECONDS = 10.0  # from Ctrl-C to ``stop``
# After SIGTERM and SIGHUP: ``docker stop`` kills after ten seconds, and saving a
# checkpoint and ending worker processes needs some of this time.
TERM_GRACE_SECONDS = 4.0
RESCUE_SECONDS = 2.0  # from ``stop`` to the rescue of an iteration that goes on
# From a stop signal to the end of the process, everything saved.
SAVE_SECONDS = 8.0
_HOOK_SECONDS = 0.5  # for the hooks of a hard exit
_CLOSE = 0  # not the number of a signal


class Interrupts:
    """Turns signals into requests that a training loop reads between iterations.

        with Interrupts(stop=pool.stop, kill=pool.kill) as interrupts:
            while not interrupts.requested:
                iterate()

    The first of ``stop_signals`` sets ``requested`` and is acknowledged within moments.
    If the context is still open after the grace time, ``stop`` is called, which should
    end the running iteration. What goes on nevertheless is left behind, see ``rescue``.
    A SIGINT after that first signal ends the process with
    status 130 within a second; in an interactive session it calls ``stop`` at once
    instead. SIGUSR1 sets ``checkpoint_requested``.

    Only the main thread can receive signals; in other threads it does nothing.

    Args:
      stop: makes the environments' steps return at once; called from another thread,
        possibly more than once.
      kill: ends child processes without waiting, before a hard exit.
      report: called with a line of text from another thread; stderr if None.

    Attributes:
      signal: number of the first stop signal; None if there was none.
    """

    def __init__(
        self,
        stop: Callable[[], None] | None = None,
        *,
        kill: Callable[[], None] | None = None,
        report: Callable[[str], None] | None = None,
    ):
        self.signal: int | None = None
        self._stop = stop or (lambda: None)
        self._kill = kill or (lambda: None)
        self._report = report or _report
        self._checkpoint_requested = False
        self._deadline: float | None = None
        self._since = math.inf
        self._acknowledged = False
        self._stopped = False  # whether ``stop`` was called because of the deadline
        self._rescue: Callable[[], None] | None = None
        self._rescuing = threading.Lock()
        self._handlers: dict[int, object] = {}
        self._previous_fd = -1

    @property
    def requested(self) -> bool:
        """True if training should stop after this iteration."""
        return self.signal is not None

    @property
    def seconds_left(self) -> float:
        """Time left to save everything after a stop signal; infinite without one."""
        return self._since + SAVE_SECONDS - time.monotonic()

    @property
    def checkpoint_requested(self) -> bool:
        """True if a checkpoint should be saved; reading it resets it."""
        requested, self._checkpoint_requested = self._checkpoint_requested, False
        return requested

    @contextlib.contextmanager
    def rescue(self, save: Callable[[], None]) -> Iterator[None]:
        """Leave the code inside behind if it goes on after ``stop``.

        An update inside a compiled program cannot be cut short. ``RESCUE_SECONDS``
        after ``stop``, ``save`` is called from another thread, and the process ends
        with the status of the signal. In an interactive session, which holds the user's
        variables, nothing happens.
        """
        with self._rescuing:
            self._rescue = save
        try:
            yield
        finally:
            with self._rescuing:  # during a rescue, this waits for the process's end
                self._rescue = None

    def __enter__(self) -> Interrupts:
        reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)  # required of the wake-up descriptor
        self._watcher = threading.Thread(
            target=self._watch, args=(reader,), name="interrupts", daemon=True
        )
        self._watcher.start()
        if _is_main():
            self._install()
        return self

    def __exit__(self, *exc) -> None:
        if self._handlers:
            signal.set_wakeup_fd(self._previous_fd)
        for number, handler in self._handlers.items():
            # None: Python did not install the handler and cannot restore it.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        with contextlib.suppress(BlockingIOError):  # full: the watcher is awake anyway
            self._writer.send(bytes([_CLOSE]))
        self._watcher.join(timeout=2.0)  # longer only if a hook hangs: it is a daemon
        self._writer.close()

    def _install(self) -> None:
        numbers = dict.fromkeys(stop_signals(), self._note_stop)
        if hasattr(signal, "SIGUSR1"):
            numbers[signal.SIGUSR1] = self._note_checkpoint
        self._previous_fd = signal.set_wakeup_fd(
            self._writer.fileno(), warn_on_full_buffer=False
        )
        for number, handler in numbers.items():
            self._handlers[number] = signal.signal(number, handler)

    def _note_stop(self, number: int, frame) -> None:
        self.signal = self.signal or number
        self._since = min(self._since, time.monotonic())

    def _note_checkpoint(self, number: int, frame) -> None:
        self._checkpoint_requested = True

    def _watch(self, reader: socket.socket) -> None:
        with reader:
            while True:
                timeout = None
                if self._deadline is not None:
                    timeout = max(1e-3, self._deadline - time.monotonic())
                reader.settimeout(timeout)
                try:
                    numbers = reader.recv(4096)
                except TimeoutError:
                    self._overdue()
                    continue
                for number in numbers:
                    if number == _CLOSE:
                        return
                    self._handle(number)
                if not numbers:  # __exit__ closed the other end
                    return

    def _handle(self, number: int) -> None:
        if number in stop_signals():
            self.signal = self.signal or number  # Python's handler may not have run yet
            if not self._acknowledged:
                self._acknowledged = True
                ctrl_c = number == signal.SIGINT
                grace = GRACE_SECONDS if ctrl_c else TERM_GRACE_SECONDS
                self._deadline = time.monotonic() + grace
                self._print(
                    "stopping after this iteration; press Ctrl-C again to stop at once"
                )
            elif number == signal.SIGINT and hasattr(sys, "ps1"):
                # In a shell or a notebook: the process holds the user's variables.
                self._print("stopping the environments; then the run is saved")
                _call(self._stop)
            elif number == signal.SIGINT:
                self._exit_now()
        elif hasattr(signal, "SIGUSR1") and number == signal.SIGUSR1:
            self._print("saving a checkpoint after this iteration")
        elif self._previous_fd >= 0:  # for another reader, such as an event loop
            with contextlib.suppress(OSError):
                os.write(self._previous_fd, bytes([number]))

    def _overdue(self) -> None:
        """Stop the environments at the first deadline; at the second one, end."""
        if not self._stopped:
            self._stopped = True
            self._deadline = time.monotonic() + RESCUE_SECONDS
            self._print("the iteration did not end in time and is interrupted")
            _call(self._stop)
            return
        self._deadline = None
        if not hasattr(sys, "ps1"):
            # In a thread, so that a second Ctrl-C is still noticed.
            threading.Thread(target=self._save_and_exit, daemon=True).start()

    def _save_and_exit(self) -> None:
        with self._rescuing:
            if self._rescue is None:  # the iteration has ended, and the run is saved
                return
            self._print("an update goes on; the run ends with its newest copied state")
            _call(self._rescue)
            self._exit_now(self.signal)

    def _exit_now(self, number: int = signal.SIGINT) -> None:
        def hooks() -> None:
            _call(self._stop)
            _call(self._kill)

        thread = threading.Thread(target=hooks, daemon=True)
        thread.start()
        thread.join(_HOOK_SECONDS)
        show_cursor = "\x1b[?25h" if os.isatty(2) else ""  # a bar hides it
        _report(f"{show_cursor}stopped")
        os._exit(exit_status(number))

    def _print(self, text: str) -> None:
        _call(lambda: self._report(text))


@contextlib.contextmanager
def harmless_checkpoint_requests() -> Iterator[None]:
    """Keep SIGUSR1 from ending the process where ``Interrupts`` is not open.

    Before training there is nothing to save, and its first iteration is saved anyway.
    A handler that is already installed stays.
    """
    number = getattr(signal, "SIGUSR1", None)
    if number is None or not _is_main() or signal.getsignal(number) != signal.SIG_DFL:
        yield
        return

    def ignore(*_: object) -> None:  # child processes would inherit SIG_IGN
        pass

    signal.signal(number, ignore)
    try:
        yield
    finally:
        # Not if the process ends from another thread, or if the user's code has
        # installed a handler meanwhile.
        if _is_main() and signal.getsignal(number) is ignore:
            signal.signal(number, signal.SIG_DFL)


def stop_signals() -> list[int]:
    """Return the signals that ask a process to stop.

    SIGHUP, sent when the terminal is closed, is left out if it is ignored, as under
    ``nohup``.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        numbers.append(hangup)
    return numbers


def exit_status(number: int | None) -> int:
    """Return the exit status of a process that a signal has stopped."""
    return 128 + (number or signal.SIGINT)


def _is_main() -> bool:
    """Return whether this thread may install handlers of signals."""
    return threading.current_thread() is threading.main_thread()


def _call(hook: Callable[[], None]) -> None:
    try:
        hook()
    except Exception as error:  # a hook's bug must not end the watcher
        _report(f"while stopping: {type(error).__name__}: {error}")


def _report(text: str) -> None:
    """Write a line to stderr, unless that would block, as on a pipe without reader."""
    with contextlib.suppress(OSError, ValueError):
        if os.name == "nt" or select.select([], [2], [], 0)[1]:
            newline = "\n" if os.isatty(2) else ""
            os.write(2, f"{newline}{text}\n".encode())
