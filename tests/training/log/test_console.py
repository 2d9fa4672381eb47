import io
import math
import os
import sys

import pytest
import rich.console

from tfagents_batch.training.log.console import Console, count, progress


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    "number, text",
    [
        (0, "0"),
        (7.4, "7"),
        (999, "999"),
        (1000, "1k"),
        (1234, "1.23k"),
        (12345, "12.3k"),
        (200_000, "200k"),
        (999_499, "999k"),
        (999_960, "1M"),
        (1_250_000, "1.25M"),
        (3e9, "3G"),
        (5e15, "5000T"),
    ],
)
def test_counts_are_compact(number, text):
    assert count(number) == text


def test_plain_lines_come_after_3_seconds_and_then_every_4():
    stream, clock = io.StringIO(), Clock()
    printed = []
    with Console(1000, stream, clock=clock) as console:
        for second in range(30):
            clock.now = 100.0 + second
            before = stream.tell()
            console.update(10 * second, {})
            if stream.tell() > before:
                printed.append(second)
    assert printed == [3, 7, 11, 15, 19, 23, 27]
    assert len(stream.getvalue().splitlines()) == 8  # and one at the end


def test_the_end_is_told_once():
    stream, clock = io.StringIO(), Clock()
    with Console(10, stream, clock=clock) as console:
        clock.now += 5
        console.update(10, {})  # then the last evaluation, and a checkpoint
    assert stream.getvalue().count("100%") == 1


def lines(total, *updates, **options):
    """Return the printed lines for ``(seconds, step, metrics)`` updates."""
    stream, clock = io.StringIO(), Clock()
    with Console(total, stream, clock=clock, **options) as console:
        for seconds, step, metrics in updates:
            clock.now += seconds
            console.update(step, metrics)
    return stream.getvalue().splitlines()


def test_a_line_shows_steps_speed_return_and_time_left():
    metrics = {
        "time/env_steps_per_second": 6543.2,
        "episode/return_mean": 123.456,
        "eval/return_mean": -7.0,
    }
    line = lines(200_000, (0, 0, {}), (10, 50_000, metrics))[0]
    assert line == (
        " 25%  50k/200k steps  6.54k/s  return 123.5  0:00:30 left  eval -7"
    )
    assert line.isascii()


def test_the_first_iteration_which_compiles_does_not_count_for_the_time_left():
    first, second = lines(1000, (100, 100, {}), (10, 200, {}))
    assert "left" not in first
    assert second.endswith("  0:01:20 left")


def test_the_last_finite_return_stays():
    found = [{"episode/return_mean": value} for value in (5.0, math.nan)]
    assert "return 5 " in lines(100, (0, 1, found[0]), (5, 2, found[1]))[0]


def test_time_left_of_a_resumed_run_counts_its_own_steps_only():
    line = lines(1000, (0, 800, {}), (10, 900, {}), start_step=800)[0]
    assert "10/s" in line
    assert line.endswith("  0:00:10 left")


@pytest.mark.parametrize("total", [0, 10])
def test_steps_beyond_the_total_are_accepted(total):
    assert lines(total, (5, 12, {}))[0].startswith("100%")


def fake_terminal(width):
    stream = io.StringIO()
    options = {"force_terminal": True, "file": stream, "width": width}
    return stream, Clock(), rich.console.Console(**options)


def test_a_terminal_gets_a_bar_with_the_same_numbers():
    stream, clock, terminal = fake_terminal(120)
    with Console(200_000, clock=clock, terminal=terminal) as console:
        console.update(0, {})
        clock.now += 10
        console.update(50_000, {"episode/return_mean": 123.456})
        console.message("a [bold] message")
        clock.now += 10
        console.update(200_000, {})
    text = stream.getvalue()
    assert "50k/200k steps  5k/s  return 123.5  0:00:30 left" in text
    assert "a [bold] message\n" in text
    assert "100%" in text
    assert "━" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # cursor restored


def test_a_narrow_terminal_gets_one_line_with_the_main_numbers():
    stream, clock, terminal = fake_terminal(80)
    metrics = {
        "time/env_steps_per_second": 65432.1,
        "episode/return_mean": -1234.5,
        "eval/return_mean": -1234.5,
    }
    with Console(1_000_000, clock=clock, terminal=terminal) as console:
        console.update(0, {})
        clock.now += 1000
        console.update(123_456, metrics)
        before = stream.tell()
        clock.now += 1
        console.update(123_457, metrics)
        text = stream.getvalue()[before:]
    assert "123k/1M steps  65.4k/s  return -1234  1:58:27 left  eval -1234" in text
    assert " 12%" in text
    assert "\n" not in text


def test_a_bar_is_drawn_ten_times_a_second_at_most():
    stream, clock, terminal = fake_terminal(120)
    drawn = 0
    with Console(1000, clock=clock, terminal=terminal) as console:
        for step in range(1000):
            clock.now += 0.001
            before = stream.tell()
            console.update(step, {})
            drawn += stream.tell() > before
    assert 8 <= drawn <= 10


def test_an_interrupt_restores_the_terminal_and_prints_no_traceback():
    stream, _, terminal = fake_terminal(120)
    with (
        pytest.raises(KeyboardInterrupt),
        Console(1000, terminal=terminal) as console,
    ):
        console.update(1, {})
        raise KeyboardInterrupt
    assert stream.getvalue().endswith("\x1b[?25h")
    assert "Traceback" not in stream.getvalue()


def test_progress_goes_to_stderr_and_stdout_stays_free(capsys):
    with Console(10) as console:
        console.update(5, {})
        console.message("hello")
        print("result")
    out, err = capsys.readouterr()
    assert out == "result\n"
    assert "hello" in err
    assert "5/10 steps" in err


def test_a_build_server_with_forced_colors_gets_plain_lines(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()
    with Console(10, stream):
        pass
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_that_goes_away_does_not_stop_training():
    master, slave = os.openpty()
    stderr, clock = sys.stderr, Clock()
    stream = os.fdopen(slave, "w")
    with Console(10, stream, clock=clock) as console:
        clock.now += 5
        console.update(5, {})
        assert b"\x1b[?25l" in os.read(master, 65536)  # a bar, not lines
        os.close(master)
        clock.now += 5
        console.update(6, {})
        console.message("x")
    assert sys.stderr is stderr
    with pytest.raises(OSError, match="Input/output error"):
        stream.close()


def test_a_broken_stream_does_not_stop_training():
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w", buffering=1)
    clock = Clock()
    with Console(10, stream, clock=clock) as console:
        clock.now += 5
        console.update(5, {})
        console.message("x")
    with pytest.raises(BrokenPipeError):
        stream.close()
    with Console(10, stream, clock=clock) as console:  # closed
        clock.now += 5
        console.update(5, {})


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_in_a_pipe_is_a_line_after_3_and_then_every_4_seconds():
    stream, clock = io.StringIO(), Clock()
    with progress(stream, clock) as tell:
        for second in range(10):
            clock.now = 100.0 + second
            tell(second / 10, "reading rows")
    assert stream.getvalue() == (
        " 30%  reading rows  0:00:03 elapsed\n 70%  reading rows  0:00:07 elapsed\n"
    )


def test_progress_on_a_terminal_is_a_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream, clock = Terminal(), Clock()
    with progress(stream, clock) as tell:
        clock.now += 65
        tell(0.5, "writing [samples]")
    text = stream.getvalue()
    assert "writing [samples]  0:01:05 elapsed" in text
    assert "50%" in text and "━" in text


def test_a_closed_stream_does_not_stop_the_work():
    stream, clock = io.StringIO(), Clock()
    with progress(stream, clock) as tell:
        stream.close()
        clock.now += 5
        tell(0.5, "writing samples")
