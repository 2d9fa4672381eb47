import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfagents_batch.training import signals
from tfagents_batch.training.signals import Interrupts, harmless_checkpoint_requests

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SIGNALS = (*STOPS, signal.SIGUSR1)
SECONDS = 20  # longest wait of a test


class Lines:
    """Records reports; ``wait`` returns when a report contains the text."""

    def __init__(self):
        self.texts = []
        self.changed = threading.Condition()

    def __call__(self, text):
        with self.changed:
            self.texts.append(text)
            self.changed.notify_all()

    def wait(self, text):
        with self.changed:
            assert self.changed.wait_for(
                lambda: any(text in line for line in self.texts), SECONDS
            ), self.texts


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_requests_a_stop_and_raises_nothing(number):
    lines = Lines()
    with Interrupts(report=lines) as interrupts:
        assert not interrupts.requested
        os.kill(os.getpid(), number)
        assert interrupts.requested
        lines.wait("stopping after this iteration; press Ctrl-C again to stop at once")
        assert interrupts.signal == number
        assert not interrupts.checkpoint_requested
    assert interrupts.requested


def test_an_ignored_sighup_stays_ignored_as_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts(report=Lines()) as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert not interrupts.requested
    finally:
        signal.signal(signal.SIGHUP, before)


def test_sigusr1_requests_one_checkpoint_and_no_stop():
    lines = Lines()
    with Interrupts(report=lines) as interrupts:
        assert not interrupts.checkpoint_requested
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGUSR1)
            assert interrupts.checkpoint_requested
            assert not interrupts.checkpoint_requested
        lines.wait("saving a checkpoint")
        assert not interrupts.requested


@pytest.mark.parametrize("number", STOPS)
def test_stop_is_called_once_when_the_grace_time_is_over(number, monkeypatch):
    name = "GRACE_SECONDS" if number == signal.SIGINT else "TERM_GRACE_SECONDS"
    monkeypatch.setattr(signals, name, 0.05)
    lines, stops, called = Lines(), [], threading.Event()

    def stop():
        stops.append(time.monotonic())
        called.set()

    with Interrupts(stop, report=lines):
        began = time.monotonic()
        os.kill(os.getpid(), number)
        assert called.wait(SECONDS)
        lines.wait("did not end in time")
    assert len(stops) == 1
    assert stops[0] - began >= 0.05


def test_a_second_sigterm_does_not_end_the_process():
    lines = Lines()
    with Interrupts(report=lines):
        os.kill(os.getpid(), signal.SIGTERM)
        lines.wait("stopping")
        os.kill(os.getpid(), signal.SIGTERM)
    assert len(lines.texts) == 1


def test_in_an_interactive_session_a_second_ctrl_c_only_stops(monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    lines, stopped = Lines(), threading.Event()
    with Interrupts(stopped.set, report=lines):
        os.kill(os.getpid(), signal.SIGINT)
        lines.wait("stopping after this iteration")
        assert not stopped.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        assert stopped.wait(SECONDS)
        lines.wait("stopping the environments")


def test_a_broken_hook_does_not_break_the_watcher(capfd, monkeypatch):
    def broken(*_):
        raise RuntimeError("my bug")

    for grace in (0.0, 10.0):
        monkeypatch.setattr(signals, "GRACE_SECONDS", grace)
        with Interrupts(broken, report=broken) as interrupts:
            os.kill(os.getpid(), signal.SIGINT)
            assert interrupts.requested
    assert "while stopping: RuntimeError: my bug" in capfd.readouterr().err


def test_checkpoint_requests_are_harmless_before_and_after_training():
    before = signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    try:
        with harmless_checkpoint_requests():
            with Interrupts(report=Lines()):
                pass
            with harmless_checkpoint_requests():
                pass
            os.kill(os.getpid(), signal.SIGUSR1)
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
        signal.signal(signal.SIGUSR1, pytest.fail)
        with harmless_checkpoint_requests():
            assert signal.getsignal(signal.SIGUSR1) is pytest.fail
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        with harmless_checkpoint_requests():
            signal.signal(signal.SIGUSR1, pytest.fail)
        assert signal.getsignal(signal.SIGUSR1) is pytest.fail
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_another_thread_may_end_the_protection_from_checkpoint_requests():
    before = signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    try:
        stack = contextlib.ExitStack()
        stack.enter_context(harmless_checkpoint_requests())
        with ThreadPoolExecutor(1) as thread:
            thread.submit(stack.close).result(SECONDS)
        os.kill(os.getpid(), signal.SIGUSR1)  # still harmless
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def descriptor():
    """Yield the reading end of another wake-up descriptor, with handlers."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    numbers = (*SIGNALS, signal.SIGUSR2)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    fd = signal.set_wakeup_fd(writer)
    yield reader
    signal.set_wakeup_fd(fd)
    for number, handler in before.items():
        signal.signal(number, handler)
    os.close(reader)
    os.close(writer)


def test_handlers_and_descriptor_are_restored(descriptor):
    def state():
        handlers = [signal.getsignal(number) for number in SIGNALS]
        return handlers, len(os.listdir("/proc/self/fd")), threading.active_count()

    before = state()
    with Interrupts(), Interrupts():
        assert signal.getsignal(signal.SIGINT) is not before[0][0]
    assert state() == before
    os.kill(os.getpid(), signal.SIGUSR1)
    assert os.read(descriptor, 10) == bytes([signal.SIGUSR1])


def test_other_signals_reach_the_previous_wakeup_descriptor(descriptor):
    with Interrupts(report=Lines()):
        os.kill(os.getpid(), signal.SIGUSR2)
        assert select.select([descriptor], [], [], SECONDS)[0]
        assert os.read(descriptor, 10) == bytes([signal.SIGUSR2])


def test_outside_the_main_thread_signals_are_left_alone():
    def train():
        with Interrupts() as interrupts:
            return signal.getsignal(signal.SIGINT), interrupts.requested

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(train).result(SECONDS)
    assert found == (signal.getsignal(signal.SIGINT), False)


# A program that is inside a call without any Python, such as that of a compiled
# program, until its standard input has a byte.
PROGRAM = """
import ctypes, os, sys, threading
from tfagents_batch.training import signals

signals.RESCUE_SECONDS = 0.1
signals.GRACE_SECONDS = signals.TERM_GRACE_SECONDS = float(sys.argv[1])
library, lock = ctypes.CDLL(None), ctypes.c_buffer(64)
library.pthread_mutex_init(lock, None)
library.pthread_mutex_lock(lock)

def say(text):
    os.write(1, f"{text}\\n".encode())

def unlock():
    os.read(0, 1)
    library.pthread_mutex_unlock(lock)

threading.Thread(target=unlock, daemon=True).start()
hook = threading.Event().wait if "hang" in sys.argv else lambda: say("stop")
with signals.Interrupts(
    hook,
    kill=hook if "hang" in sys.argv else lambda: say("kill"),
) as interrupts, interrupts.rescue(lambda: say("saved")):
    say("ready")
    library.pthread_mutex_lock(lock)
say(f"returned requested={interrupts.requested} "
    f"checkpoint={interrupts.checkpoint_requested}")
sys.exit(130 if interrupts.requested else 0)
"""


class Process:
    """The program above, with stdout and stderr as one stream of lines."""

    def __init__(self, *arguments):
        reader, writer = os.pipe()
        self.buffer, self.reader = b"", reader
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=writer,
            stderr=writer,
        )
        os.close(writer)

    def __enter__(self):
        self.wait("ready", 60)
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait(SECONDS)
        self.process.stdin.close()
        os.close(self.reader)

    def wait(self, text, seconds=SECONDS):
        """Return the seconds until the text arrived."""
        began = time.monotonic()
        while text.encode() not in self.buffer:
            left = began + seconds - time.monotonic()
            assert left > 0, self.buffer
            assert select.select([self.reader], [], [], left)[0], self.buffer
            data = os.read(self.reader, 65536)
            assert data, self.buffer
            self.buffer += data
        return time.monotonic() - began

    def send(self, number):
        self.process.send_signal(number)


def test_ctrl_c_is_acknowledged_inside_a_compiled_program():
    with Process(1000) as program:
        program.send(signal.SIGUSR1)
        program.wait("saving a checkpoint after this iteration")
        program.send(signal.SIGINT)
        program.wait("press Ctrl-C again")
        assert b"returned" not in program.buffer
        program.process.stdin.close()
        program.wait("returned requested=True checkpoint=True")
        assert program.process.wait(SECONDS) == 130
        assert b"stop\n" not in program.buffer
        assert b"Traceback" not in program.buffer


@pytest.mark.parametrize("hooks", ["end", "hang"])
def test_a_second_ctrl_c_ends_a_compiled_program_at_once(hooks):
    with Process(1000, hooks) as program:
        program.send(signal.SIGINT)
        program.wait("press Ctrl-C again")
        program.send(signal.SIGINT)
        assert program.process.wait(SECONDS) == 130
        program.wait("stop\nkill\nstopped\n" if hooks == "end" else "stopped\n")
        assert b"returned" not in program.buffer


def test_a_program_that_goes_on_is_left_behind_with_what_can_be_saved():
    with Process(0.1) as program:
        program.send(signal.SIGTERM)
        program.wait("did not end in time and is interrupted\nstop\n")
        program.wait("an update goes on")
        program.wait("saved\nstop\nkill\nstopped\n")
        assert program.process.wait(SECONDS) == 128 + signal.SIGTERM
        assert b"returned" not in program.buffer


def test_a_run_that_is_being_saved_after_its_iteration_is_not_left(monkeypatch):
    monkeypatch.setattr(signals, "RESCUE_SECONDS", 0.0)
    leave, left, exits = Interrupts._save_and_exit, threading.Event(), []

    def counted(self):
        leave(self)
        left.set()

    monkeypatch.setattr(Interrupts, "_save_and_exit", counted)
    monkeypatch.setattr(Interrupts, "_exit_now", lambda self, number: exits.append(1))
    monkeypatch.setattr(signals, "GRACE_SECONDS", 0.0)
    with Interrupts(report=Lines()) as interrupts:
        with interrupts.rescue(pytest.fail):
            pass
        os.kill(os.getpid(), signal.SIGINT)
        assert left.wait(SECONDS)
    assert exits == []


def test_an_interactive_session_is_never_left(monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    monkeypatch.setattr(signals, "RESCUE_SECONDS", 0.0)
    monkeypatch.setattr(Interrupts, "_save_and_exit", pytest.fail)
    lines, overdue, twice = Lines(), Interrupts._overdue, threading.Event()

    def counted(self):
        if self._stopped:
            twice.set()
        overdue(self)

    monkeypatch.setattr(Interrupts, "_overdue", counted)
    monkeypatch.setattr(signals, "GRACE_SECONDS", 0.0)
    with Interrupts(report=lines) as ours, ours.rescue(pytest.fail):
        os.kill(os.getpid(), signal.SIGINT)
        assert twice.wait(SECONDS)


def test_a_rescue_fits_into_the_documented_seconds():
    assert signals.TERM_GRACE_SECONDS + signals.RESCUE_SECONDS < signals.SAVE_SECONDS
    assert (signals.GRACE_SECONDS, signals.SAVE_SECONDS) == (10, 8)
