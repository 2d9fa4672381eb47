"""Single figures of our own, each the median of several new processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from benchmarks.measure import process, ratios
from benchmarks.measure.process import Failure, Name, Played, Result


class Figure(NamedTuple):
    """A figure: its title in tables, its unit, and its maximum as goal."""

    title: str
    unit: str
    goal: float | None = None


def repeat(
    names: Iterable[Name], count: int, run: Callable[[Name], Result | Failure]
) -> Played:
    """Run each of several works ``count`` times; results of failed ones are dropped.

    Args:
      names: names of the works.
      count: number of rounds.
      run: function that runs a work in a new process.
    """

    def shown(name: Name, number: int) -> Result | Failure:
        result = run(name)
        if not isinstance(result, Failure):
            process.report(f"{name}, {number} of {count}: {result}")
        return result

    found = process.alternate([*names], count, shown)
    for name in found.failures:
        del found.results[name]
    return found


def inside(module: str, work: Any, deadline: float) -> Result | Failure:
    """Run a module of ``benchmarks.inside`` that measures figures."""
    return process.run(f"benchmarks.inside.{module}", work, deadline)


def line(figure: Figure, values: Sequence[float], /, **fields: Any) -> Result:
    """Return the line to record for a figure: its values, and their median."""
    value = ratios.median(values).median
    return {**fields, **figure._asdict(), "value": value, "values": [*values]}
