"""Main function of a contender's process: timed phases, then one line of JSON.

A contender's module ends with ``session.main(load, start)``. It is run as
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

_OPTIONAL = ("returns", "differs")  # attributes that not all sessions have


class Measured(NamedTuple):
    """Measured work.

    Attributes:
      count: amount of work, in the session's unit.
      seconds: duration.
      rate: count per second; the sum of the rates if processes measured separately.
    """

    count: int
    seconds: float
    rate: float


class Session(Protocol):
    """A constructed contender.

    Attributes:
      unit: unit of the count.
      same: properties that must be equal for all contenders of a row.
      own: printed properties that may differ: workers, autoreset mode, settings.
      versions: versions of this contender's own packages.

    A contender that trains also has ``returns``, and may have ``differs``:

      returns: mean return of the last episodes, None if none ended.
      differs: ``{key of same: reason}`` of the differences in its work; printed.
    """

    unit: str
    same: dict[str, Any]
    own: dict[str, Any]
    versions: dict[str, str]

    def compile(self) -> int:
        """Compile, if possible; return the count of work done meanwhile."""
        ...

    def measure(self, seconds: float, blocks: int | None) -> Measured:
        """Work for ``seconds``, or for a number of blocks if it is not None."""
        ...

    def close(self) -> None:
        """End all processes."""
        ...


def repeat(
    block: Callable[[], int], seconds: float, blocks: int | None = None
) -> Measured:
    """Repeat a block of work.

    Args:
      block: function that does a block and returns its count.
      seconds: no block starts later.
      blocks: number of blocks, instead of ``seconds``.
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

    All other output goes to stderr.

    Args:
      load: function that imports large packages, so that imports are timed separately.
      start: function of the work and the contender's options that returns a session.
      work_type: type of the work, which the ``--work`` flag's JSON object describes.
      prepare: function called with the options before ``load``.
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
    """Do a contender's work; return its result.

    Args:
      load, start: functions of the contender.
      work: work with ``seconds``, ``blocks`` and ``least_seconds``.
    """
    phases: dict[str, float] = {}
    with _timed(phases, "import"):
        load()
    with _timed(phases, "construction"):
        session = start(work)
    try:
        with _timed(phases, "compile"):
            compiled = session.compile()
        warm = session.measure(0.0, 1)
        steady = session.measure(work.seconds, work.blocks)
        # Read before a longer measurement, while all contenders have trained equally.
        more = {x: getattr(session, x) for x in _OPTIONAL if hasattr(session, x)}
        if (rest := work.least_seconds - steady.seconds) > 0:
            steady = _add(steady, session.measure(rest, None))
    finally:
        with _timed(phases, "close"):
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
    """Yield a dict to print at the end; until then stdout is redirected to stderr."""
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
    """Return the object of ``--work=<json>``, which must be the only flag."""
    return json_flags(arguments, "work")["work"]


def json_flags(arguments: list[str], first: str, *others: str) -> dict[str, Any]:
    """Return the objects of ``--name=<json>`` flags by name.

    Args:
      arguments: arguments of the command line.
      first: name of a required flag.
      others: names of optional flags.
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


def _add(first: Measured, second: Measured) -> Measured:
    """Return the sum of two parts of work by one process."""
    count, seconds = first.count + second.count, first.seconds + second.seconds
    return Measured(count, seconds, count / seconds)


@contextlib.contextmanager
def _timed(phases: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    phases[name] = time.perf_counter() - started
