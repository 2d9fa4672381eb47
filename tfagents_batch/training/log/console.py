"""The console of a command: a line while it starts, then its progress and messages.

Importing TensorFlow, starting environments and compiling take seconds each. Until the
first result, ``starting`` shows a line that says what is being done (``doing``). Then
``Console`` shows the progress of a run, or ``progress`` that of another command: as a
bar on a terminal, else as a line now and then.

Everything goes to stderr; stdout is only used for results.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:  # slow to import, and the first line comes before it
    import rich.console
    import rich.progress

REASON = "the first start compiles for about 20 s, later ones are faster"
FIRST = f"starting; {REASON}"
REFRESH_SECONDS = 0.1  # shortest time between two updates of the bar
TICK_SECONDS = 0.5  # longest one
FIRST_LINE_SECONDS = 3.0
LINE_SECONDS = 4.0
# Seconds before the line of ``starting``; on a terminal it is there at once.
_FIRST = 1.0
_JOIN = 1.0  # seconds that ``Ticker.stop`` waits for a call that hangs, on a terminal
_ERASE = "\r\x1b[2K"
_RETURN = "episode/return_mean"
_EVAL = "eval/return_mean"

_doing = ""
_open: list[_Start] = []  # at most one


@contextlib.contextmanager
def doing(text: str) -> Iterator[Callable[[str], None]]:
    """Say what is done inside the context; yield a function that changes the text.

    An empty text says that nothing takes long. Any thread may show it.
    """
    before = _doing
    _change(text)
    try:
        yield _change
    finally:
        _change(before)


def _change(text: str) -> None:
    global _doing
    _doing = text


@contextlib.contextmanager
def starting(quiet: bool = False, reason: str = REASON) -> Iterator[None]:
    """Say at once that a command starts, and then what it does, until ``started``.

    A reason, which may be empty, says why this may take long.
    """
    if not quiet and not _open:
        _open.append(_Start(reason))
        _open[0].start()
    try:
        yield
    finally:
        started()


def started() -> None:
    """End the line of ``starting``, because something else takes its place."""
    while _open:
        _open.pop().stop()


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Take the line of ``starting`` away while something else is printed."""
    with _open[0].erased() if _open else contextlib.nullcontext():
        yield


class _Start:
    """The line of ``starting``.

    It has a descriptor of its own: stderr is redirected while TensorFlow is imported.
    """

    def __init__(self, reason: str):
        self._began, self._reason = time.monotonic(), reason
        self._lock = threading.Lock()
        try:
            self._file = os.dup(2)
            self._terminal = os.isatty(self._file) and os.environ.get("TERM") != "dumb"
        except OSError:  # stderr is closed
            self._file, self._terminal = None, False
        self._said = False
        seconds = TICK_SECONDS if self._terminal else LINE_SECONDS
        self._ticker = Ticker(seconds, self._tell, min(seconds, _FIRST))

    def start(self) -> None:
        if self._file is not None:
            if self._terminal:  # elsewhere a wrong flag is one line, its error
                self._tell()
            self._ticker.start()

    def stop(self) -> None:
        if self._file is not None and self._ticker.stop():
            if self._terminal:
                self._write(_ERASE)
            os.close(self._file)
        self._file = None

    @contextlib.contextmanager
    def erased(self) -> Iterator[None]:
        """Remove the line on a terminal, until something else is printed."""
        with self._lock:
            if self._terminal:
                self._write(_ERASE)
            yield

    def _tell(self) -> None:
        seconds = round(time.monotonic() - self._began)
        text = f"{_doing or 'starting'}, {seconds} s"
        if self._reason and not self._said:
            text = f"starting; {self._reason}"
        elif self._reason and self._terminal:
            text = f"{text} ({self._reason})"
        self._said = True
        with self._lock:
            self._write(f"{_ERASE}{text}" if self._terminal else f"{text}\n")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be closed
            os.write(self._file, text.encode())


class Ticker:
    """Thread that calls a function every few seconds, from ``start`` to ``stop``.

    It is first called after ``first`` seconds; None means ``seconds``.
    """

    def __init__(
        self, seconds: float, call: Callable[[], None], first: float | None = None
    ):
        self._seconds, self._call = seconds, call
        self._first = seconds if first is None else first
        self._done = threading.Event()
        name = "tfagents_batch-display"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> bool:
        """End the thread; return False if it hangs. Without ``start``, do nothing."""
        self._done.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN)
        return not self._thread.is_alive()

    def _run(self) -> None:
        seconds = self._first
        while not self._done.wait(seconds):
            self._call()
            seconds = self._seconds


def speed_name(unit: str) -> str:
    """Return the log's name of the speed, for example in "env steps" per second."""
    return f"time/{unit.replace(' ', '_')}_per_second"


class Console:
    """Shows the progress of a run: steps, steps per second, last return, time left.

        with Console(total_steps) as console:
            console.update(step, metrics)
            console.message("saved")

    A thread shows it too, with what takes long now (``doing``). On a terminal it is a
    progress bar. Elsewhere it prints a line after 3 seconds and then every 4 seconds.
    If the stream breaks, nothing more is written to it.

    Args:
      total_steps: steps at which the run ends.
      stream: output stream; stderr if None.
      start_step: steps at which a resumed run begins.
      unit: unit of steps, see ``experience.Experience``.
      clock: monotonic time in seconds.
      terminal: rich console to use instead of ``stream``.
      quiet: show no progress and no notes, only messages.
    """

    def __init__(
        self,
        total_steps: int,
        stream: TextIO | None = None,
        *,
        start_step: int = 0,
        unit: str = "env steps",
        clock: Callable[[], float] = time.monotonic,
        terminal: rich.console.Console | None = None,
        quiet: bool = False,
    ):
        self._total, self._speed = total_steps, speed_name(unit)
        self._step = start_step
        self._after_first: tuple[float, int] | None = None
        self._clock = clock
        self._began = self._shown = clock()
        self._interval = FIRST_LINE_SECONDS
        self._latest: dict[str, float] = {}
        self._told: tuple[int, dict[str, float]] | None = None  # by the last line
        self._broken, self._quiet = False, quiet
        self._stream = stream or sys.stderr
        self._bar: rich.progress.Progress | None = None
        self._ticker = Ticker(TICK_SECONDS, self._tick)
        terminal = terminal or _terminal(self._stream)
        if _can_draw(terminal) and not quiet:
            self._bar = _make_bar(terminal, lambda _: self._status(self._clock()))
            self._task = self._bar.add_task("", total=total_steps, completed=start_step)

    def update(self, step: int, metrics: dict[str, float]) -> None:
        """Show progress: steps so far, and the last values of some metrics.

        These are the speed, see ``speed_name``, and the mean returns of episodes and
        evaluations.
        """
        self._step = step
        if self._after_first is None:  # the first iteration is mostly compilation
            self._after_first = (self._clock(), step)
        for name in (self._speed, _RETURN, _EVAL):
            if (value := metrics.get(name)) is not None and math.isfinite(value):
                self._latest[name] = float(value)
        now = self._clock()
        if now - self._shown >= (REFRESH_SECONDS if self._bar else self._interval):
            self._interval = LINE_SECONDS
            self._show(now)

    def message(self, text: str) -> None:
        """Print a line, above the bar if there is one; any thread may call it."""
        if self._bar:
            options = {"markup": False, "highlight": False, "soft_wrap": True}
            self._draw(self._bar.console.print, text, **options)
        else:  # not through rich: it exits the process when a pipe breaks
            self._draw(print, text, file=self._stream, flush=True)

    def note(self, text: str) -> None:
        """Print a line that a quiet run does without."""
        if not self._quiet:
            self.message(text)

    def __enter__(self) -> Console:
        started()
        if self._bar:
            self._draw(self._bar.start)
        if not self._quiet:
            self._ticker.start()
        return self

    def __exit__(self, *exc) -> None:
        self._ticker.stop()
        if self._bar or self._told != (self._step, self._latest):
            self._show(self._clock())
        if self._bar:
            with contextlib.suppress(OSError, ValueError):
                self._bar.stop()  # releases stderr, even if it is broken

    def _tick(self) -> None:
        """Show what takes long, while there are no updates."""
        if self._bar:
            self._draw(self._bar.refresh)
        elif self._clock() - self._shown >= self._interval:
            self._interval = LINE_SECONDS
            self._show(self._clock())

    def _show(self, now: float) -> None:
        self._shown = now
        if self._bar:
            self._bar.update(self._task, completed=self._step)
            self._draw(self._bar.refresh)
        else:
            self._told = self._step, dict(self._latest)
            done = self._step / max(self._total, 1)
            self.note(f"{min(done, 1):4.0%}  {self._status(now)}")

    def _status(self, now: float) -> str:
        """Return the text, important parts first, because its end may be cut off."""
        since, first = self._after_first or (now, self._step)
        mean_speed = (self._step - first) / (now - since) if now > since else 0.0
        speed = self._latest.get(self._speed, mean_speed)
        parts = [f"{count(self._step)}/{count(self._total)} steps"]
        if _doing:
            parts.append(_doing)
        if speed > 0:
            parts.append(f"{count(speed)}/s")
        if _RETURN in self._latest:
            parts.append(f"return {self._latest[_RETURN]:.4g}")
        if mean_speed > 0 and self._step < self._total:
            parts.append(f"{duration((self._total - self._step) / mean_speed)} left")
        if _EVAL in self._latest:
            parts.append(f"eval {self._latest[_EVAL]:.4g}")
        if mean_speed == 0 or self._step >= self._total:
            parts.append(f"{duration(now - self._began)} elapsed")
        return "  ".join(parts)

    def _draw(self, draw: Callable[..., None], *args: Any, **options: Any) -> None:
        """Draw, unless the stream is broken, which does not stop training."""
        if not self._broken:
            try:
                draw(*args, **options)
            except (OSError, ValueError):
                self._broken = True


@contextlib.contextmanager
def progress(
    stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[float, str], None]]:
    """Yield a function of the part that is done (0 to 1) and the current work.

    On a terminal it moves a bar. Elsewhere it prints a line after 3 seconds and then
    every 4 seconds, or leaves that to the line of ``starting``.

    Args:
      stream: output stream; stderr if None.
      clock: monotonic time in seconds.
    """
    stream = stream or sys.stderr
    began = clock()
    due = began + FIRST_LINE_SECONDS
    terminal = _terminal(stream)

    def elapsed(text: str) -> str:
        return f"{text}  {duration(clock() - began)} elapsed"

    def line(part: float, text: str) -> None:
        nonlocal due
        if (now := clock()) >= due:
            due = now + LINE_SECONDS
            with contextlib.suppress(OSError, ValueError):  # a closed stream
                print(f"{part:4.0%}  {elapsed(text)}", file=stream, flush=True)

    if _can_draw(terminal):
        started()
        with _make_bar(terminal, lambda task: task.fields["numbers"]) as bar:
            task = bar.add_task("", total=1.0, numbers="")

            def move(part: float, text: str) -> None:
                bar.update(task, completed=part, numbers=elapsed(text))
                bar.refresh()

            yield move
    elif _open:
        with doing("") as say:
            yield lambda part, text: say(f"{part:.0%}  {text}")
    else:
        yield line


def count(number: float) -> str:
    """Format a count in at most five characters: 950, 12.3k, 1.25M."""
    if number < 1000:
        return f"{number:.0f}"
    unit = ""
    for unit in "kMGT":
        number /= 1000
        if number < 999.5 or unit == "T":
            break
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    text = f"{number:.{digits}f}"
    return (text.rstrip("0").rstrip(".") if digits else text) + unit


def duration(seconds: float) -> datetime.timedelta:
    """Return whole seconds, which are shown as 0:01:30."""
    return datetime.timedelta(seconds=round(seconds))


def _terminal(stream: TextIO) -> rich.console.Console:
    """Return a rich console that knows whether its stream is a terminal."""
    import rich.console

    try:
        is_terminal = stream.isatty()
    except ValueError:  # closed
        is_terminal = False
    # With FORCE_COLOR, which many build servers set, rich would assume a terminal.
    return rich.console.Console(
        file=stream, force_terminal=is_terminal, force_jupyter=False
    )


def _can_draw(terminal: rich.console.Console) -> bool:
    return terminal.is_terminal and not terminal.is_dumb_terminal


def _make_bar(
    terminal: rich.console.Console, text: Callable[[rich.progress.Task], str]
) -> rich.progress.Progress:
    """Return a bar in one line, with a text behind it."""
    from rich import progress as parts
    from rich import table
    from rich.text import Text

    class BarText(parts.ProgressColumn):
        max_refresh = None

        def render(self, task: parts.Task) -> Text:
            return Text(text(task))

    one_line = table.Column(no_wrap=True, overflow="ellipsis")
    return parts.Progress(
        parts.TaskProgressColumn(table_column=table.Column(min_width=4)),
        parts.BarColumn(bar_width=20),
        BarText(table_column=one_line),
        console=terminal,
        auto_refresh=False,
        redirect_stdout=False,
    )
