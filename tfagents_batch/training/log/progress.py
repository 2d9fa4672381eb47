"""Progress of a command that works in parts: a bar, or plain lines."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from tfagents_batch.training.log import console, starting, status


@contextlib.contextmanager
def shown(
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
    terminal = console.make_terminal(stream)
    if terminal.is_terminal and not terminal.is_dumb_terminal:
        starting.end()
        with console.make_bar(terminal, lambda task: task.fields["numbers"]) as bar:
            task = bar.add_task("", total=1.0, numbers="")

            def move(part: float, text: str) -> None:
                numbers = f"{text}  {console.duration(clock() - began)} elapsed"
                bar.update(task, completed=part, numbers=numbers)
                bar.refresh()

            yield move
        return
    if starting.is_open():
        with status.doing("") as say:
            yield lambda part, text: say(f"{part:.0%}  {text}")
        return
    due = began + console.FIRST_LINE_SECONDS

    def line(part: float, text: str) -> None:
        nonlocal due
        now = clock()
        if now >= due:
            due = now + console.LINE_SECONDS
            numbers = f"{text}  {console.duration(now - began)} elapsed"
            with contextlib.suppress(OSError, ValueError):  # a closed stream
                print(f"{part:4.0%}  {numbers}", file=stream, flush=True)

    yield line
