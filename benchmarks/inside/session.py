"""What runs in a contender's process: phases on a clock, one JSON line at the end.

A contender's module ends in ``session.main(load, start)``. It is run as
``python -m benchmarks.contenders.<module> --work=<json> --options=<json>``.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from benchmarks.work.stepping import Stepping

_MORE = ("returns", "differs")


class Measured(NamedTuple):
    """Work that was done.

    Attributes:
      count: of the unit.
      seconds: it took.
      rate: count per second; the sum of the rates where processes measured apart.
    """

    count: int
    seconds: float
    rate: float


class Session(Protocol):
    """A contender that was constructed.

    Attributes:
      unit: of what is counted.
      same: what must be equal for all contenders of a row.
      own: what may differ, and is printed: workers, autoreset mode, settings.
      versions: of the packages that are this contender's own.

    One that trains has more, and may have ``differs``:

      returns: mean return of the last episodes, None if none ended.
      differs: ``{key of same: why}`` where it does not do the same work; printed.
    """

    unit: str
    same: dict[str, Any]
    own: dict[str, Any]
    versions: dict[str, str]

    def compile(self) -> int:
        """Compile, if there is anything to; returns what it counted meanwhile."""
        ...

    def measure(self, seconds: float, blocks: int | None) -> Measured:
        """Work for a time, or a number of blocks if that is given."""
        ...

    def close(self) -> None:
        """End all processes."""
        ...


def repeat(
    block: Callable[[], int], seconds: float, blocks: int | None = None
) -> Measured:
    """Do a block of work again and again.

    Args:
      block: does it, and returns what it counted.
      seconds: the last block begins before they are over.
      blocks: to do instead, whatever time it takes.
    """
    count = done = 0
    started = now = time.perf_counter()
    while now - started < seconds if blocks is None else done < blocks:
        count += block()
        done += 1
        now = time.perf_counter()
    elapsed = now - started
    return Measured(count, elapsed, count / elapsed if elapsed else 0.0)


def main(
    load: Callable[[], None],
    start: Callable[..., Session],
    work_type: Callable[..., Any] = Stepping,
    prepare: Callable[..., None] | None = None,
) -> None:
    """Run a contender and print its result as one line of JSON.

    Whatever else is printed goes to stderr.

    Args:
      load: imports what is heavy, so that the clock sees it apart.
      start: constructs the session of a work; called with the contender's options.
      work_type: of the work, made from the ``--work`` flag's JSON object.
      prepare: what is to be done before ``load``; called with the options too.
    """
    with result_line() as result:
        flags = json_flags(sys.argv[1:], "work", "options")
        options = flags.get("options", {})
        if prepare is not None:
            prepare(**options)
        result.update(
            run(
                load,
                functools.partial(start, **options),
                work_type(**flags["work"]),
            )
        )


def run(
    load: Callable[[], None], start: Callable[[Any], Session], work: Any
) -> dict[str, Any]:
    """Play one contender's work; returns its result.

    Args:
      load, start: of the contender.
      work: with ``seconds``, ``blocks`` and ``least_seconds``.
    """
    phases: dict[str, float] = {}
    with _clocked(phases, "import"):
        load()
    with _clocked(phases, "construction"):
        session = start(work)
    try:
        with _clocked(phases, "compile"):
            compiled = session.compile()
        warm = session.measure(0.0, 1)
        steady = session.measure(work.seconds, work.blocks)
        # Before it goes on for the clock alone: all contenders have trained as long.
        more = {key: getattr(session, key) for key in _MORE if hasattr(session, key)}
        if (rest := work.least_seconds - steady.seconds) > 0:
            steady = _joined(steady, session.measure(rest, None))
    finally:
        with _clocked(phases, "close"):
            session.close()
    phases |= {"warm_up": warm.seconds, "steady": steady.seconds}
    return {
        "value": steady.rate,
        "unit": f"{session.unit}/s",
        "count": {"compile": compiled, "warm_up": warm.count, "steady": steady.count},
        "phases": phases,
        "same": session.same,
        "own": session.own,
        "versions": session.versions,
        **more,
    }


@contextlib.contextmanager
def result_line() -> Iterator[dict[str, Any]]:
    """A dict that is printed at the end; meanwhile stdout leads to stderr."""
    result: dict[str, Any] = {}
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield result
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)
    print(json.dumps(result), flush=True)


def work_flag(arguments: list[str]) -> dict[str, Any]:
    """The object of ``--work=<json>``, where that is the only flag there is."""
    return json_flags(arguments, "work")["work"]


def json_flags(arguments: list[str], first: str, *others: str) -> dict[str, Any]:
    """The objects of ``--name=<json>`` flags, by name.

    Args:
      arguments: of the command line.
      first: a flag that must be there.
      others: flags that may be there.
    """
    found = {}
    for argument in arguments:
        name, equals, text = argument.removeprefix("--").partition("=")
        if not equals or name not in (first, *others):
            sys.exit(f"expected --{first}=<json object>, got {argument}")
        found[name] = json.loads(text)
    if first not in found:
        sys.exit(f"expected --{first}=<json object>, got {arguments}")
    return found


def _joined(first: Measured, second: Measured) -> Measured:
    """Work that was done in two parts by one process."""
    count, seconds = first.count + second.count, first.seconds + second.seconds
    return Measured(count, seconds, count / seconds)


@contextlib.contextmanager
def _clocked(phases: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    phases[name] = time.perf_counter() - started
