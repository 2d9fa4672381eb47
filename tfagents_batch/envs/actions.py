"""Actions on both sides of the shared memory: checked and written, read and handed on.

The learner validates before it sends, because compiled programs clamp, drop or zero
what is out of range without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces


class InvalidAction(Exception):
    """An action that the space does not have.

    Attributes:
      row: index of the environment; None if the whole batch is wrong.
      action: the row's leaf, as text.
    """

    def __init__(self, message: str, row: int | None = None, action: str | None = None):
        super().__init__(message)
        self.row = row
        self.action = action


class LeafBounds(NamedTuple):
    """What an action leaf takes, for those who check it elsewhere.

    Attributes:
      kind: "float_box", "int_box" or "range".
      dtype: in the shared memory.
      width: numbers in a row.
      low, high: ``[width]``, inclusive.
      clips: whether a Box has a finite bound.
    """

    kind: str
    dtype: str
    width: int
    low: np.ndarray
    high: np.ndarray
    clips: bool


class ActionWriter:
    """Checks a batch of actions and writes it into the shared arrays.

    Attributes:
      clipped: numbers of Box actions that were clipped since the start.
      total: numbers of Box actions written since the start.
    """

    def __init__(self, space: gymnasium.Space, arrays: list[np.ndarray]):
        self.clipped = 0
        self.total = 0
        self._write = [
            (_BoxWriter if isinstance(leaf.space, gs.Box) else _RangeWriter)(leaf, x)
            for leaf, x in zip(spaces.leaves(space), arrays, strict=True)
        ]

    def write(self, flat: Sequence[np.ndarray], ignored: np.ndarray) -> None:
        """Check and write.

        Args:
          flat: leaves ``[B, ...]`` in the order of ``spaces.leaves``.
          ignored: bool ``[B]``, rows whose action has no effect; they are checked
            but not counted as clipped.

        Raises:
          InvalidAction: for NaN, values out of range, and wrong shapes.
        """
        if len(flat) != len(self._write):
            raise InvalidAction(f"{len(flat)} arrays; expected {len(self._write)}")
        for write, value in zip(self._write, flat, strict=True):
            clipped, total = write(value, ignored)
            self.clipped += clipped
            self.total += total

    def check_kinds(self, flat: Sequence[np.ndarray], rows: int) -> None:
        """Check the number, shapes and kinds of dtypes of leaves, not their values.

        Args:
          flat: leaves.
          rows: how many each must have.

        Raises:
          InvalidAction: for the first that is wrong.
        """
        if len(flat) != len(self._write):
            raise InvalidAction(f"{len(flat)} arrays; expected {len(self._write)}")
        for write, value in zip(self._write, flat, strict=True):
            write.check_kind(value, rows)

    def bounds(self) -> list[LeafBounds]:
        """What each leaf takes."""
        return [write.bounds() for write in self._write]

    def refusal(self, leaf: int, row: int, numbers: np.ndarray) -> InvalidAction:
        """Words for what was found wrong elsewhere.

        Args:
          leaf, row: where.
          numbers: int64, of that row, flat; those of a float Box are in the arrays.
        """
        return self._write[leaf].refusal(row, numbers)

    def release(self) -> None:
        """Let go of the arrays; the counts stay."""
        self._write = []


class _BoxWriter:
    """Clips to finite bounds."""

    def __init__(self, leaf: spaces.Leaf, array: np.ndarray):
        dtype = np.dtype(leaf.dtype)
        self._array = array
        self._name = _field(leaf)
        self._is_float = dtype.kind == "f"
        self._low = _narrow(leaf.space.low, dtype, upwards=True)
        self._high = _narrow(leaf.space.high, dtype, upwards=False)
        self._clips = bool(
            not self._is_float
            or np.isfinite(self._low).any()
            or np.isfinite(self._high).any()
        )
        self._width = int(np.prod(leaf.shape, dtype=np.int64))

    def __call__(self, value: np.ndarray, ignored: np.ndarray) -> tuple[int, int]:
        array = self._array
        self.check_kind(value, len(array))
        live = len(array) - int(np.count_nonzero(ignored))
        if not self._clips:
            array[...] = value
            self._check_finite()
            return 0, live * self._width
        np.clip(value, self._low, self._high, out=array, casting="unsafe")
        if self._is_float:
            self._check_finite()
        changed = array != value
        clipped = int(np.count_nonzero(changed[~ignored])) if changed.any() else 0
        return clipped, live * self._width

    def check_kind(self, value: np.ndarray, rows: int) -> None:
        _check_shape(value, (rows, *self._array.shape[1:]), self._name)
        if value.dtype.kind not in ("f" if self._is_float else "iu"):
            raise InvalidAction(
                f"{self._name} is {value.dtype}; expected {self._array.dtype}"
            )

    def bounds(self) -> LeafBounds:
        kind = "float_box" if self._is_float else "int_box"
        dtype = self._array.dtype.name
        bounds = self._low.ravel(), self._high.ravel()
        return LeafBounds(kind, dtype, self._width, *bounds, self._clips)

    def refusal(self, row: int, numbers: np.ndarray | None = None) -> InvalidAction:
        value = self._array[row].tolist()
        return _invalid(self._name, row, value, "expected finite numbers")

    def _check_finite(self) -> None:
        finite = np.isfinite(self._array)
        if not finite.all():
            raise self.refusal(_first_row(~finite))


class _RangeWriter:
    """Refuses what is outside the range of a discrete leaf."""

    def __init__(self, leaf: spaces.Leaf, array: np.ndarray):
        space = leaf.space
        self._array = array
        self._name = _field(leaf)
        self._space = space
        if isinstance(space, gs.MultiBinary):
            self._low, self._high = 0, 1
        elif isinstance(space, gs.MultiDiscrete):
            self._low = np.asarray(space.start)
            self._high = self._low + np.asarray(space.nvec) - 1
        else:
            self._low = int(space.start)
            self._high = self._low + int(space.n) - 1

    def __call__(self, value: np.ndarray, ignored: np.ndarray) -> tuple[int, int]:
        array = self._array
        self.check_kind(value, len(array))
        wrong = (value < self._low) | (value > self._high)
        if wrong.any():
            row = _first_row(wrong)
            raise self.refusal(row, value[row])
        array[...] = value
        return 0, 0

    def check_kind(self, value: np.ndarray, rows: int) -> None:
        _check_shape(value, (rows, *self._array.shape[1:]), self._name)
        if value.dtype.kind not in "iub":
            raise InvalidAction(f"{self._name} is {value.dtype}; expected integers")

    def bounds(self) -> LeafBounds:
        shape = self._array.shape[1:]
        low, high = (
            np.broadcast_to(np.asarray(bound, np.int64), shape).ravel()
            for bound in (self._low, self._high)
        )
        return LeafBounds("range", self._array.dtype.name, low.size, low, high, False)

    def refusal(self, row: int, numbers: np.ndarray) -> InvalidAction:
        shape = self._array.shape[1:]
        value = np.ravel(numbers)[: int(np.prod(shape, dtype=int))].reshape(shape)
        low, high = np.asarray(self._low).tolist(), np.asarray(self._high).tolist()
        expected = f"{self._space} takes {low} to {high}"
        return _invalid(self._name, row, value.tolist(), expected)


class ActionReader:
    """Hands rows of the shared arrays to environments, as their space has them.

    Args:
      space: the action space.
      arrays: one ``[n, ...]`` per leaf.

    Attributes:
      read: function that gives every row's action: NumPy scalars for Discrete, else
        arrays, all copies.
    """

    def __init__(self, space: gymnasium.Space, arrays: list[np.ndarray]):
        self._space = space
        self._arrays = arrays
        leaves = zip(spaces.leaves(space), arrays, strict=True)
        self._columns = [_column(leaf, array) for leaf, array in leaves]
        nested = isinstance(space, (gs.Dict, gs.Tuple))
        self.read = self._read_nested if nested else self._columns[0]

    def _read_nested(self) -> Sequence[Any]:
        rows = zip(*(column() for column in self._columns), strict=True)
        return [spaces.pack(self._space, row) for row in rows]

    def text(self, row: int) -> str:
        """One row's action for error messages."""
        return text(self._space, self._arrays, row)


def text(space: gymnasium.Space, arrays: Sequence[np.ndarray], row: int) -> str:
    """A row's action as bounded text."""
    value = spaces.pack(space, [array[row].tolist() for array in arrays])
    return _short(value)


def _column(leaf: spaces.Leaf, array: np.ndarray) -> Callable[[], Sequence[Any]]:
    """A function that copies the leaf of every row."""
    dtype = leaf.space.dtype
    if array.ndim > 1 or isinstance(leaf.space, gs.Discrete):
        return lambda: list(array.astype(dtype))

    def arrays() -> list[np.ndarray]:
        fresh = array.astype(dtype)
        return [fresh[row, ...] for row in range(len(fresh))]  # not scalars

    return arrays


def _narrow(bound: np.ndarray, dtype: np.dtype, upwards: bool) -> np.ndarray:
    """A bound in the narrower dtype, never outside the original one."""
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        return np.clip(bound, limits.min, limits.max).astype(dtype)
    with np.errstate(over="ignore"):
        narrow = bound.astype(dtype)
    if upwards:
        return np.where(
            narrow < bound, np.nextafter(narrow, dtype.type(np.inf)), narrow
        )
    return np.where(narrow > bound, np.nextafter(narrow, dtype.type(-np.inf)), narrow)


def _check_shape(value: np.ndarray, shape: tuple[int, ...], name: str) -> None:
    if value.shape != shape:
        raise InvalidAction(
            f"{name} has shape {list(value.shape)}; expected {list(shape)}, one row "
            "per environment"
        )


def _first_row(wrong: np.ndarray) -> int:
    return int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))[0])


def _invalid(name: str, row: int, action: Any, expected: str) -> InvalidAction:
    value = _short(action)
    return InvalidAction(f"{name} is {value}; {expected}", row, value)


def _field(leaf: spaces.Leaf) -> str:
    return "action" + "".join(f"[{key!r}]" for key in leaf.path)


def _short(value: Any) -> str:
    result = str(value)
    return result if len(result) <= 500 else f"{result[:500]}..."
