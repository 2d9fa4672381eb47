"""Actions in the shared memory: the learner checks and writes them, workers read them.

The learner validates actions before sending them, because compiled programs silently
clamp, drop or zero values that are out of range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs.shared.observation_rules import bounds as rule_bounds
from tfagents_batch.envs.shared.observation_rules import short

FLOAT_BOX, INT_BOX, RANGE = "float_box", "int_box", "range"
_KINDS = {FLOAT_BOX: "f", INT_BOX: "iu", RANGE: "iub"}  # NumPy's dtype.kind


class InvalidAction(Exception):
    """Error for an action outside its space."""

    def __init__(self, message: str, row: int | None = None, action: str | None = None):
        super().__init__(message)
        self.row = row  # None if the whole batch is wrong
        self.action = action  # the invalid leaf of that row, as text


class LeafBounds(NamedTuple):
    """Valid values of an action leaf, for checks outside this module."""

    kind: str  # ``FLOAT_BOX``, ``INT_BOX`` or ``RANGE``
    dtype: str  # in the shared memory
    width: int  # number of elements per row
    low: np.ndarray  # [width], inclusive
    high: np.ndarray  # [width], inclusive
    clips: bool  # whether a Box has a finite bound


class ActionWriter:
    """Checks a batch of actions and writes it into the shared arrays."""

    def __init__(self, space: gymnasium.Space, arrays: list[np.ndarray]):
        self.clipped = 0  # elements of Boxes that were clipped since the start
        self.total = 0  # elements of Boxes that were written
        leaves = zip(spaces.leaves(space), arrays, strict=True)
        self._write = [_LeafWriter(leaf, array) for leaf, array in leaves]

    def write(self, flat: Sequence[np.ndarray], ignored: np.ndarray) -> None:
        """Check and write leaves ``[B, ...]``, in the order of ``spaces.leaves``.

        In the rows ``ignored``, bool ``[B]``, the action has no effect: they are
        checked, but not counted as clipped. NaN, values out of range and wrong shapes
        raise ``InvalidAction``.
        """
        self.check_kinds(flat, len(ignored))
        for write, value in zip(self._write, flat, strict=True):
            clipped, total = write(value, ignored)
            self.clipped += clipped
            self.total += total

    def check_kinds(self, flat: Sequence[np.ndarray], rows: int) -> None:
        """Check the number of leaves, their shapes and kinds of dtypes."""
        if len(flat) != len(self._write):
            raise InvalidAction(f"{len(flat)} arrays; expected {len(self._write)}")
        for write, value in zip(self._write, flat, strict=True):
            write.check_kind(value, rows)

    def bounds(self) -> list[LeafBounds]:
        """Return the valid values of each leaf."""
        return [write.bounds for write in self._write]

    def refusal(self, leaf: int, row: int, numbers: np.ndarray) -> InvalidAction:
        """Return the error for an invalid action that the native hub found.

        ``numbers`` are the flat values of that row, int64; those of a float Box are in
        the shared arrays.
        """
        return self._write[leaf].refusal(row, numbers)

    def release(self) -> None:
        """Drop the references to the arrays; the counts remain."""
        self._write = []


class _LeafWriter:
    """Writer of one leaf: clips a Box to its bounds, refuses other invalid values."""

    def __init__(self, leaf: spaces.Leaf, array: np.ndarray):
        self.bounds = _bounds(leaf, array.dtype)
        self._array = array
        self._name = spaces.field(leaf.path, "action")
        self._space = leaf.space
        self._low = self.bounds.low.reshape(leaf.shape)
        self._high = self.bounds.high.reshape(leaf.shape)

    def check_kind(self, value: np.ndarray, rows: int) -> None:
        """Check the shape and the kind of dtype of a batch."""
        kind, shape = self.bounds.kind, [rows, *self._array.shape[1:]]
        if list(value.shape) != shape:
            raise InvalidAction(
                f"{self._name} has shape {list(value.shape)}; expected {shape}, one "
                "row per environment"
            )
        if value.dtype.kind not in _KINDS[kind]:
            expected = "integers" if kind == RANGE else self._array.dtype
            raise InvalidAction(f"{self._name} is {value.dtype}; expected {expected}")

    def __call__(self, value: np.ndarray, ignored: np.ndarray) -> tuple[int, int]:
        """Write a batch; return the counts of clipped and written Box elements."""
        array, kind = self._array, self.bounds.kind
        if kind == RANGE:
            wrong = (value < self._low) | (value > self._high)
            if wrong.any():
                row = _first_row(wrong)
                raise self.refusal(row, value[row])
            array[...] = value
            return 0, 0
        if self.bounds.clips:
            np.clip(value, self._low, self._high, out=array, casting="unsafe")
        else:
            array[...] = value
        if kind == FLOAT_BOX and not (finite := np.isfinite(array)).all():
            raise self.refusal(_first_row(~finite))
        written = np.count_nonzero(~ignored) * self.bounds.width
        changed = (array != value)[~ignored] if self.bounds.clips else 0
        return int(np.count_nonzero(changed)), int(written)

    def refusal(self, row: int, numbers: np.ndarray | None = None) -> InvalidAction:
        expected = "expected finite numbers"
        value = self._array[row]
        if self.bounds.kind == RANGE:
            numbers = np.ravel(np.asarray(numbers))[: self.bounds.width]
            value = numbers.reshape(value.shape)
            low, high = (np.asarray(x).tolist() for x in rule_bounds(self._space))
            expected = f"{self._space} takes {low} to {high}"
        text = short(value.tolist())
        return InvalidAction(f"{self._name} is {text}; {expected}", row, text)


def _bounds(leaf: spaces.Leaf, dtype: np.dtype) -> LeafBounds:
    low, high = rule_bounds(leaf.space)
    kind, clips = RANGE, False
    if isinstance(leaf.space, gs.Box):
        kind = FLOAT_BOX if dtype.kind == "f" else INT_BOX
        low, high = _narrow(low, dtype, upwards=True), _narrow(high, dtype, False)
        clips = kind == INT_BOX or bool((np.isfinite(low) | np.isfinite(high)).any())
    else:
        low, high = np.int64(low), np.int64(high)
    low, high = (np.broadcast_to(x, leaf.shape).ravel() for x in (low, high))
    return LeafBounds(kind, dtype.name, low.size, low, high, clips)


class ActionReader:
    """Converts rows of the shared arrays to actions of the environments' space."""

    def __init__(self, space: gymnasium.Space, arrays: list[np.ndarray]):
        self._space = space
        self._arrays = arrays
        leaves = zip(spaces.leaves(space), arrays, strict=True)
        self._columns = [_column(leaf, array) for leaf, array in leaves]
        nested = isinstance(space, (gs.Dict, gs.Tuple))
        # Returns a copy of every row: NumPy scalars for Discrete, else arrays.
        self.read = self._read_nested if nested else self._columns[0]

    def _read_nested(self) -> Sequence[Any]:
        rows = zip(*(column() for column in self._columns), strict=True)
        return [spaces.pack(self._space, row) for row in rows]

    def text(self, row: int) -> str:
        """Return the action of one row as text, for error messages."""
        return text(self._space, self._arrays, row)


def text(space: gymnasium.Space, arrays: Sequence[np.ndarray], row: int) -> str:
    """Return the action of a row as text of limited length."""
    value = spaces.pack(space, [array[row].tolist() for array in arrays])
    return short(value)


def _column(leaf: spaces.Leaf, array: np.ndarray) -> Callable[[], Sequence[Any]]:
    """Return a function that copies the leaf of every row."""
    dtype = leaf.space.dtype
    if array.ndim > 1 or isinstance(leaf.space, gs.Discrete):
        return lambda: list(array.astype(dtype))

    def arrays() -> list[np.ndarray]:
        fresh = array.astype(dtype)
        return [fresh[row, ...] for row in range(len(fresh))]  # 0-d arrays, not scalars

    return arrays


def _narrow(bound: np.ndarray, dtype: np.dtype, upwards: bool) -> np.ndarray:
    """Return a bound in the narrower dtype, never outside the original bound."""
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        return np.clip(bound, limits.min, limits.max).astype(dtype)
    with np.errstate(over="ignore"):
        narrow = bound.astype(dtype)
        inside = np.nextafter(narrow, dtype.type(np.inf if upwards else -np.inf))
    return np.where(narrow < bound if upwards else narrow > bound, inside, narrow)


def _first_row(wrong: np.ndarray) -> int:
    return int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))[0])
