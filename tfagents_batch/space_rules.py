"""Does an array fit a part of a space? One table of rules for all who ask.

Environments, ``check_env``, the loaded agent, the predictor and the server have their
own words for what is wrong. The rules need only NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

SHAPE, FIT, FINITE, BOUNDS = KINDS = "shape", "fit", "finite", "bounds"
_SQUARES = 1e76  # of numbers that float32 has

Bounds = tuple[Any, Any]  # lowest and highest number, both inclusive
Rule = Callable[[np.ndarray, np.dtype, Bounds | None], np.ndarray | None]


class Part(Protocol):
    """Part of a space: ``spaces.Leaf``, or an input of an export."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one value."""
        ...

    @property
    def dtype(self) -> str:
        """Name of the NumPy dtype that the numbers are converted to."""
        ...


class Flaw(NamedTuple):
    """A broken rule: its kind, and bool ``[...]``: which numbers break it."""

    kind: str
    wrong: np.ndarray

    @property
    def place(self) -> tuple[int, ...]:
        """Index of the first wrong number."""
        return first(self.wrong)


def flaws(
    array: np.ndarray,
    part: Part,
    bounds: Bounds | None = None,
    *,
    axes: int = 0,
    kinds: Sequence[str] = KINDS,
) -> Iterator[Flaw]:
    """Yield what is wrong with an array of numbers.

    Args:
      array: numbers of any dtype.
      part: what the array should be.
      bounds: of whole numbers and of a Box; None for all numbers.
      axes: number of axes before those of the part, of any size.
      kinds: rules to apply. "shape" comes first; "fit": numbers that a dtype of whole
        numbers does not have; "finite": NaN, infinity, and what a dtype of floats does
        not have; "bounds": finite numbers outside the bounds.
    """
    fits = array.ndim == axes + len(part.shape) and array.shape[axes:] == part.shape
    if SHAPE in kinds and not fits:
        yield Flaw(SHAPE, np.ones(array.shape, bool))
    dtype = np.dtype(part.dtype)
    for kind, rule in _RULES.items():
        if kind in kinds and (fits or kind != BOUNDS):
            wrong = rule(array, dtype, bounds)
            if wrong is not None and wrong.any():
                yield Flaw(kind, wrong)


def first(wrong: np.ndarray) -> tuple[int, ...]:
    """Return the index of the first true element; there is one."""
    return tuple(np.argwhere(wrong)[0].tolist())


def _changed(array: np.ndarray, dtype: np.dtype, _: Any) -> np.ndarray | None:
    if dtype.kind == "f" or array.dtype == dtype:
        return None
    with np.errstate(invalid="ignore"):
        return array.astype(dtype) != array


def _not_finite(array: np.ndarray, dtype: np.dtype, _: Any) -> np.ndarray | None:
    if array.dtype.kind != "f":
        return None
    # The sum of squares is below this only if no number is large or NaN; the test takes
    # a fraction of the time of ``isfinite``.
    if dtype.itemsize > 2 and float(np.vdot(array, array)) < _SQUARES:
        return None
    with np.errstate(over="ignore"):
        return ~np.isfinite(array.astype(dtype) if dtype.kind == "f" else array)


def _outside(
    array: np.ndarray, dtype: np.dtype, bounds: Bounds | None
) -> np.ndarray | None:
    if bounds is None:
        return None
    low, high = bounds
    outside = (array < low) | (array > high)
    infinite = _not_finite(array, dtype, None)
    return outside if infinite is None else outside & ~infinite


_RULES: dict[str, Rule] = {FIT: _changed, FINITE: _not_finite, BOUNDS: _outside}
