"""The line before the console: it says what is done, until the console opens."""

import contextlib
import os
import pty
import threading
import time

import pytest

from tfagents_batch.scripts import command_line
from tfagents_batch.training.log import console
from tfagents_batch.training.log.console import Console

DEADLINE = 10.0


@contextlib.contextmanager
def stderr(kind, monkeypatch):
    """Yield a function that reads stderr, a terminal or a pipe, up to a text."""
    ours, theirs = pty.openpty() if kind == "terminal" else os.pipe()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(console, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(console, "LINE_SECONDS", 0.01)
    saved = os.dup(2)
    os.dup2(theirs, 2)
    os.close(theirs)
    found = bytearray()

    def until(text):
        deadline = time.monotonic() + DEADLINE
        while text.encode() not in found and time.monotonic() < deadline:
            found.extend(os.read(ours, 4096))
        return found.decode()

    try:
        yield until
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(ours)


@pytest.mark.parametrize("kind", ["terminal", "pipe"])
def test_a_start_says_what_it_does_until_the_console_opens(kind, monkeypatch):
    threads = threading.active_count()
    with stderr(kind, monkeypatch) as read, console.starting():
        assert console.FIRST in read("faster")
        with console.doing("building"), console.starting():  # which began before
            assert "building, 0 s" in read("building, 0 s")
        with Console(10, quiet=True):
            assert threading.active_count() == threads
    assert console._doing == ""


def test_a_pipe_gets_a_line_after_which_results_come(monkeypatch, capsys):
    """Every command opens the line, and says what it does before its results."""
    seen = []

    def main(argv):
        with console.doing("fitting") as now:
            seen.append(read("fitting, 0 s"))
            now("step 2 of 3")
            seen.append(read("step 2 of 3, 0 s"))
            command_line.say("half of it")
        command_line.show("result")
        assert not console._open
        return 0

    monkeypatch.setattr("sys.argv", ["tfagents-batch"])
    with stderr("pipe", monkeypatch) as read:
        assert command_line.run(main) == 0
    assert "compiles" not in seen[-1]  # only training does
    assert capsys.readouterr() == ("result\n", "half of it\n")


def test_a_help_that_takes_long_says_so_until_it_is_there(monkeypatch, capsys):
    def main(argv):
        with console.doing("importing TensorFlow"):
            read("importing TensorFlow, 0 s")
        with pytest.raises(SystemExit):
            command_line.flags(argv, (command_line.AgentCommand, ""))
        assert not console._open
        return 0

    monkeypatch.setattr("sys.argv", ["tfagents-batch", "--help"])
    with stderr("pipe", monkeypatch) as read:
        assert command_line.run(main) == 0
    assert "--checkpoint=newest" in capsys.readouterr().out


def test_on_a_terminal_other_lines_take_the_place_of_the_line(monkeypatch):
    with stderr("terminal", monkeypatch) as read, console.starting(reason=""):
        read("starting, 0 s")
        with console.aside():
            os.write(2, b"note\n")
        assert "\r\x1b[2Knote\r\n" in read("note\r\n")


def test_progress_is_said_by_the_line_that_is_open(monkeypatch):
    with (
        stderr("pipe", monkeypatch) as read,
        console.starting(reason=""),
        console.progress() as tell,
    ):
        tell(0.4, "writing samples")
        assert "40%  writing samples, 0 s" in read("samples, 0 s")


def test_a_quiet_start_and_one_without_stderr_say_nothing(monkeypatch):
    with stderr("pipe", monkeypatch) as read:
        with console.starting(quiet=True):
            os.write(2, b"nothing")
        assert read("nothing") == "nothing"

    def closed(descriptor):
        raise OSError("closed")

    monkeypatch.setattr(os, "dup", closed)
    with console.starting():
        pass


def test_a_quiet_console_prints_warnings_only(capsys):
    with Console(10, quiet=True) as console:
        console.note("weights")
        console.update(10, {})
        console.message("warning: the disk is full")
    assert capsys.readouterr().err == "warning: the disk is full\n"
