"""What runs in a contender's process: phases on a clock, one JSON line at the end.

A contender is a module that ends in ``session.main(load, start)``. It is run as
``python -m benchmarks.contenders.<name> --work=<json>``.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from benchmarks.stepping import Stepping

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
      differs: ``{key of same: why}`` where it cannot do the same work; printed.
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
    start: Callable[[Any], Session],
    work_type: Callable[..., Any] = Stepping,
) -> None:
    """Run a contender and print its result as one line of JSON.

    Whatever else is printed goes to stderr.

    Args:
      load: imports what is heavy, so that the clock sees it apart.
      start: constructs the session of a work.
      work_type: of the work, made from the ``--work`` flag's JSON object.
    """
    with result_line() as result:
        result.update(run(load, start, work_type(**work_flag(sys.argv[1:]))))


def run(
    load: Callable[[], None], start: Callable[[Any], Session], work: Any
) -> dict[str, Any]:
    """Play one contender's work; returns its result.

    Args:
      load, start: of the contender.
      work: with ``seconds`` and ``blocks``.
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
        **{key: getattr(session, key) for key in _MORE if hasattr(session, key)},
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
    """The object of ``--work=<json>``, the only flag there is."""
    if len(arguments) != 1 or not arguments[0].startswith("--work="):
        sys.exit(f"expected --work=<json object> and nothing else, got {arguments}")
    return json.loads(arguments[0].removeprefix("--work="))


@contextlib.contextmanager
def _clocked(phases: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    phases[name] = time.perf_counter() - started
