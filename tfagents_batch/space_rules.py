"""Does an observation's array fit its part of a space? One table of rules.

Environments, ``check_env``, the loaded agent, the predictor and the server have their
own words for what is wrong. The rules need only NumPy. Nesting is theirs, too: in
``envs/shared/observation_rules.py`` and ``serving/inputs.py``. Actions have rules of
their own in ``envs/shared/actions.py`` and, for the native backend, in ``hub.cc``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

SHAPE, FIT, FINITE, BOUNDS = KINDS = "shape", "fit", "finite", "bounds"
_SQUARES = 1e76  # of numbers that float32 has

Bounds = tuple[Any, Any]  # lowest and highest number, both inclusive


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
    fits = array.shape[axes:] == part.shape and array.ndim - len(part.shape) == axes
    if not fits and SHAPE in kinds:
        yield Flaw(SHAPE, np.ones(array.shape, bool))
    dtype = np.dtype(part.dtype)
    if dtype.kind != "f" and array.dtype != dtype and FIT in kinds:
        wrong = _changed(array, dtype)
        if wrong.any():
            yield Flaw(FIT, wrong)
    infinite = None
    if array.dtype.kind == "f" and (FINITE in kinds or BOUNDS in kinds):
        infinite = _not_finite(array, dtype)
        if infinite is not None and FINITE in kinds:
            yield Flaw(FINITE, infinite)
    if bounds is not None and fits and BOUNDS in kinds:
        wrong = (array < bounds[0]) | (array > bounds[1])
        if infinite is not None:
            wrong &= ~infinite
        if wrong.any():
            yield Flaw(BOUNDS, wrong)


def first(wrong: np.ndarray) -> tuple[int, ...]:
    """Return the index of the first true element; there is one."""
    return tuple(np.argwhere(wrong)[0].tolist())


def _changed(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return where a conversion changes the numbers."""
    if array.dtype.kind != "f":
        return array.astype(dtype) != array
    with np.errstate(invalid="ignore"):
        return array.astype(dtype) != array


def _not_finite(array: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """Return where floats are not finite after a conversion; None if all are."""
    # The sum of squares is below this only if no number is large or NaN; the test takes
    # a fraction of the time of ``isfinite``.
    if dtype.itemsize > 2 and float(np.vdot(array, array)) < _SQUARES:
        return None
    with np.errstate(over="ignore"):
        wrong = ~np.isfinite(array.astype(dtype) if dtype.kind == "f" else array)
    return wrong if wrong.any() else None
