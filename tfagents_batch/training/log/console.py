"""Progress of a run on the console: a progress bar, or plain lines.

Everything goes to stderr; stdout is only used for results.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import rich.console
import rich.text
from rich import progress, table

from tfagents_batch.training.log import starting, status
from tfagents_batch.training.log.ticker import Ticker

REFRESH_SECONDS = 0.1  # shortest time between two updates of the bar
TICK_SECONDS = 0.5  # longest one
FIRST_LINE_SECONDS = 3.0
LINE_SECONDS = 4.0
_RETURN = "episode/return_mean"
_EVAL = "eval/return_mean"


def speed_name(unit: str) -> str:
    """Return the log's name of the speed, for example in "env steps" per second."""
    return f"time/{unit.replace(' ', '_')}_per_second"


class Console:
    """Shows the progress of a run: steps, steps per second, last return, time left.

        with Console(total_steps) as console:
            console.update(step, metrics)
            console.message("saved")

    A thread shows it too, with what takes long now (``status``). On a terminal it is a
    progress bar. Elsewhere it prints a line after 3 seconds and then every 4 seconds.
    If the stream breaks, nothing more is written to it.

    Args:
      total_steps: steps at which the run ends.
      stream: output stream; stderr if None.
      start_step: steps at which a resumed run begins.
      unit: unit of steps, see ``interfaces.Experience``.
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
        self._bar: progress.Progress | None = None
        self._ticker = Ticker(TICK_SECONDS, self._tick)
        terminal = terminal or make_terminal(self._stream)
        if terminal.is_terminal and not terminal.is_dumb_terminal and not quiet:
            self._bar = make_bar(terminal, lambda _: self._status(self._clock()))
            self._task = self._bar.add_task("", total=total_steps, completed=start_step)

    def update(self, step: int, metrics: dict[str, float]) -> None:
        """Show progress.

        Args:
          step: steps so far.
          metrics: values by their log names. The last values of the speed, see
            ``speed_name``, ``episode/return_mean`` and ``eval/return_mean`` are shown.
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
        starting.end()
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
        if doing := status.now():
            parts.append(doing)
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


def event_text(event: dict[str, Any]) -> str:
    """Return the line of an event, as in ``metrics.jsonl``; empty if it has none.

    Args:
      event: fields of the event, with its kind under ``event``.
    """
    kind = event["event"]
    if kind == "below_best":
        return (
            f"the last evaluation has a {event['measure']} of "
            f"{event['last']:.4g}, below the best one, {event['best']:.4g} at step "
            f"{event['best_step']:,}; use that checkpoint with --checkpoint=best. Its "
            "number is the largest of all evaluations, so a new one is usually lower"
        )
    if kind == "env_failed":
        return f"warning: {event['cause']}; it will be replaced"
    if kind == "env_restarted":
        first, last = event["envs"][0], event["envs"][-1]
        envs = f"env {first}" if first == last else f"envs {first} to {last}"
        seconds, lost = event["seconds"], event["lost_steps"]
        return f"replaced {envs} after {seconds:.1f} s; {lost} steps are lost"
    if kind == "replay_failed":
        return f"warning: {event['reason']}"
    if kind == "pool_worker_restarted":
        return f"warning: worker {event['worker']} is replaced: {event['reason']}"
    if kind == "pool_spilled":
        return (
            f"warning: Ray's memory is full, and {event['bytes'] / 1e6:,.0f} MB were "
            "written to disks; use smaller rollouts, or give Ray more memory"
        )
    return ""


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


def make_terminal(stream: TextIO) -> rich.console.Console:
    """Return a rich console that knows whether its stream is a terminal."""
    try:
        is_terminal = stream.isatty()
    except ValueError:  # closed
        is_terminal = False
    # With FORCE_COLOR, which many build servers set, rich would assume a terminal.
    return rich.console.Console(
        file=stream, force_terminal=is_terminal, force_jupyter=False
    )


def make_bar(
    terminal: rich.console.Console, text: Callable[[progress.Task], str]
) -> progress.Progress:
    """Return a bar in one line, with a text behind it."""

    class Numbers(progress.ProgressColumn):
        max_refresh = None

        def render(self, task: progress.Task) -> rich.text.Text:
            return rich.text.Text(text(task))

    one_line = table.Column(no_wrap=True, overflow="ellipsis")
    return progress.Progress(
        progress.TaskProgressColumn(table_column=table.Column(min_width=4)),
        progress.BarColumn(bar_width=20),
        Numbers(table_column=one_line),
        console=terminal,
        auto_refresh=False,
        redirect_stdout=False,
    )
