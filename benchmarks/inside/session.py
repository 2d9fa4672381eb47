"""Main function of a measured process: work, and print one line of JSON.

A contender's file ends with ``session.main(start, <large packages>)``. It is run as
``python -m benchmarks.contenders.<module> --work=<json> --options=<json>``.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

LAST = 0.2  # last fraction of a run's episodes, for the compared returns


class Measured(NamedTuple):
    """Env steps, seconds, and steps per second.

    The rate is the sum of the rates if several processes measured separately.
    """

    count: int
    seconds: float
    rate: float


class Session(Protocol):
    """A constructed contender.

    These are optional: ``measure``, which is called as ``repeat`` and used instead of
    ``block``; ``episodes``, the returns of the episodes that have ended, in order; and
    ``differs``, a reason for each difference of ``same`` by its key.
    """

    same: dict[str, Any]  # properties that must be equal for all contenders of a row
    own: dict[str, Any]  # properties that may differ: workers, autoreset mode, settings
    versions: dict[str, str]  # of this contender's own packages

    def block(self) -> int:
        """Do a block of work; return its env steps."""
        ...

    def close(self) -> None:
        """End all processes."""
        ...


def repeat(
    block: Callable[[], int], seconds: float, blocks: int | None = None
) -> Measured:
    """Repeat a block, which returns its count, for seconds, or a number of blocks."""
    count = done = 0
    started = now = time.perf_counter()
    while now - started < seconds if blocks is None else done < blocks:
        count += block()
        done += 1
        now = time.perf_counter()
    elapsed = now - started
    return Measured(count, elapsed, count / elapsed if elapsed else 0.0)


def main(start: Callable[..., Session], *packages: str) -> None:
    """Import large packages, run the contender that ``start`` returns, and print."""
    with result_line() as result, contextlib.ExitStack() as stack:
        work, options = flags()
        turn = stack.enter_context(_turns(options.pop("turns", None)))
        result.update(run(functools.partial(start, **options), work, packages, turn))


def run(
    start: Callable[[Any], Session],
    work: Any,
    packages: Sequence[str] = (),
    turn: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Run a contender; after the warm-up, ``turn`` waits until it may measure."""
    phases: dict[str, float] = {}
    with _timed(phases, "import"):
        for name in packages:
            importlib.import_module(name)
    with _timed(phases, "construction"):
        session = start(work)
    measure = getattr(session, "measure", None)
    measure = measure or functools.partial(repeat, session.block)
    try:
        warm = measure(0.0, 1)
        turn()
        steady = measure(work.seconds, work.blocks)
        # Read before a longer measurement, while all contenders have trained equally.
        trained = hasattr(session, "episodes")
        more = {"returns": last_mean(session.episodes)} if trained else {}
        if (rest := work.seconds - steady.seconds) > 0:
            longer = measure(rest, None)
            count = steady.count + longer.count
            seconds = steady.seconds + longer.seconds
            steady = Measured(count, seconds, count / seconds)
    finally:
        with _timed(phases, "close"):
            session.close()
    phases |= {"warm_up": warm.seconds, "steady": steady.seconds}
    return {
        "value": steady.rate,
        "unit": "env steps/s",
        "count": {"warm_up": warm.count, "steady": steady.count},
        "phases": phases,
        "same": session.same,
        "own": session.own,
        "versions": session.versions,
        "differs": getattr(session, "differs", {}),
        **more,
    }


def last_mean(returns: Sequence[float]) -> float | None:
    """Return the mean of a run's last returns, given in the order of their ends."""
    count = max(1, round(LAST * len(returns))) if returns else 0
    return sum(returns[-count:]) / count if count else None


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


def flags(arguments: Sequence[str] | None = None) -> tuple[Any, dict[str, Any]]:
    """Return the work and the options of the command line, or of given arguments."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--work", required=True, type=json.loads)
    parser.add_argument("--options", default={}, type=json.loads)
    given = parser.parse_args(arguments)
    module, name = given.work.pop("kind")
    kind = getattr(importlib.import_module(module), name)
    return kind(**given.work), given.options


def figures(measure: Callable[[Any], dict[str, Any]]) -> None:
    """Measure figures for the work of the command line, and print them."""
    with result_line() as result:
        result.update(measure(flags()[0]))


@contextlib.contextmanager
def _turns(path: str | None) -> Iterator[Callable[[], None]]:
    """Let processes that start together compile together, and measure in turn.

    They lock the file at ``path``. Yields a function that waits until no other one
    compiles or measures. Without a path, the process runs alone.
    """
    if path is None:
        yield lambda: None
        return
    import fcntl  # not on Windows

    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield lambda: fcntl.flock(file, fcntl.LOCK_EX)


@contextlib.contextmanager
def _timed(phases: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    phases[name] = time.perf_counter() - started
