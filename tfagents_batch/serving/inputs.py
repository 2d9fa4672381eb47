"""Values of callers as inputs of the model, checked where they enter.

A value is JSON or arrays, of one decision or of a batch, whose arrays have one more
axis in front. Every complaint says what was wrong, where, and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfagents_batch import space_rules
from tfagents_batch.errors import UserError
from tfagents_batch.serving.description import Array, Description
from tfagents_batch.settings.suggest import hint

Arrays = dict[str, np.ndarray]
Read = Callable[[Any, Arrays], None]


class Structure:
    """Reader of values with the structure of the observation space.

    Values may be batches. Of single decisions, the action mask may be left out.

    Attributes:
      read: adds the arrays of a value to a dict, by input. It raises a UserError for
        another structure, shape or type, for NaN, for whole numbers beyond the space,
        and for a mask of zeros.
    """

    def __init__(self, description: Description, *, batch: bool):
        self._batch = batch
        self._leaves = {x.path: x for x in description.with_role("observation")}
        paths = (x.path for x in self._leaves.values() if x.name == description.mask)
        self._mask = next(paths, None)
        self.read = self._reader(description.observation_space, (), "observation")

    def _reader(self, space: Mapping[str, Any], path: tuple, where: str) -> Read:
        if space["type"] in ("Dict", "Tuple"):
            return self._reader_of_parts(space, path, where)
        leaf, batch = self._leaves[path], self._batch
        bounds, is_mask = _bounds(space), path == self._mask

        def read(value: Any, arrays: Arrays) -> None:
            array = to_array(value, leaf, where, batch=batch, bounds=bounds)
            arrays[leaf.name] = array
            if is_mask:
                _check_mask(array, where)

        return read

    def _reader_of_parts(
        self, space: Mapping[str, Any], path: tuple, where: str
    ) -> Read:
        is_dict, parts = space["type"] == "Dict", space["spaces"]
        readers = {
            key: self._reader(inner, (*path, key), f"{where}.{key}")
            for key, inner in (parts.items() if is_dict else enumerate(parts))
        }
        needed = {x for x in readers if self._batch or (*path, x) != self._mask}
        expected = f"{'an object' if is_dict else 'a list'} with {_joined(readers)}"
        kinds = (dict, Mapping) if is_dict else (list, tuple)

        def read(value: Any, arrays: Arrays) -> None:
            if not isinstance(value, kinds):
                raise UserError(f"{where} is {text(value)}; expected {expected}")
            items = value if is_dict else dict(enumerate(value))
            for key, part in items.items():
                reader = readers.get(key)
                if reader is None:
                    known = [*map(str, readers)]
                    raise UserError(
                        f"{where} has the unknown key {key!r:.50}; "
                        f"{hint(str(key), known)}"
                    )
                reader(part, arrays)
            if len(items) < len(readers) and not needed <= items.keys():
                missing = _joined(needed - items.keys())
                raise UserError(f"{where} lacks {missing}; expected {expected}")

        return read


def memory(
    description: Description, state: Any, start: Any, count: int | None = None
) -> Arrays:
    """Return the inputs of a recurrent policy's memory.

    UserError for a state of another export, or none where an episode goes on.

    Args:
      description: of the export.
      state: state of the answer before, or None.
      start: where an episode starts; one bool is for all rows. Without it, everywhere
        if ``state`` is None, else nowhere.
      count: rows of a batch; None for a single decision.
    """
    inputs = description.with_role("state")
    (first,) = description.with_role("episode_start")
    rows, batch = (() if count is None else (count,)), count is not None
    start = state is None if start is None else start
    if isinstance(start, (bool, np.bool_)):
        start = np.full(rows, start)
    start = to_array(start, first, "episode_start", batch=batch)
    if state is None:
        if not start.all():
            raise UserError(
                "episode_start is false, but there is no state; send the state of the "
                "answer before"
            )
        state = [np.zeros((*rows, *x.shape), x.dtype) for x in inputs]
    if not isinstance(state, (list, tuple)) or len(state) != len(inputs):
        raise UserError(
            f"state is no list of {len(inputs)} arrays; send the state of the answer "
            "before as it is"
        )
    arrays = {first.name: start}
    for index, (field, value) in enumerate(zip(inputs, state, strict=True)):
        arrays[field.name] = to_array(value, field, f"state[{index}]", batch=batch)
    return arrays


def to_array(
    value: Any,
    field: Array,
    where: str,
    *,
    batch: bool = False,
    bounds: space_rules.Bounds | None = None,
) -> np.ndarray:
    """Return an array, a number or nested lists of numbers as the array of an input.

    UserError that names ``where`` for another shape, other values than numbers, NaN and
    infinity, and numbers that the dtype does not have, or outside the bounds. A batch
    has a first axis of any size.
    """
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unequal lengths
        raise UserError(
            f"{where} is no array; expected {_expected(field, batch)}"
        ) from None
    dtype = np.dtype(field.dtype)
    if array.dtype.kind not in ("fiub" if dtype.kind == "f" else "iub"):
        array = _whole(value, array, where, field, batch)
    for flaw in space_rules.flaws(array, field, bounds, axes=int(batch)):
        raise UserError(f"{where}{_text(flaw, array, field, batch, bounds)}")
    return array.astype(dtype, copy=False)


def finite(value: Any, where: str, most: float) -> float:
    """Return a number; refuse anything else, and numbers that are larger than most."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    # A comparison, because whole numbers of any length arrive here, and NaN.
    if not plain or not abs(value) <= most:
        raise UserError(f"{where} is {text(value)}; expected a finite number")
    return value


def text(value: Any) -> str:
    """Return a value in at most 80 characters."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    shown = "null" if value is None else repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


def _whole(
    value: Any, array: np.ndarray, where: str, field: Array, batch: bool
) -> np.ndarray:
    """Return the integers that lists of floats are; refuse anything else."""
    expected = _expected(field, batch)
    if isinstance(value, np.ndarray):
        raise UserError(f"{where} is {array.dtype}; expected {expected}")
    if array.dtype.kind == "f" and np.array_equal(array, np.trunc(array)):
        with np.errstate(invalid="ignore"):
            whole = array.astype(np.int64)
        if np.array_equal(whole, array):
            return whole
    for index, x in np.ndenumerate(np.asarray(value, object)):
        if isinstance(x, bool) or not isinstance(x, (int, float)):
            raise UserError(
                f"{where}{list(index) or ''} is {text(x)}; expected {expected}"
            )
    raise UserError(f"{where} is {text(value)}; expected {expected}")


def _text(
    flaw: space_rules.Flaw,
    array: np.ndarray,
    field: Array,
    batch: bool,
    bounds: space_rules.Bounds | None,
) -> str:
    """Return what is wrong with an input, after its name."""
    if flaw.kind == space_rules.SHAPE:
        actual = f"has shape {list(array.shape)}"
        if array.ndim == len(field.shape) == 1:
            actual = f"has {len(array)} numbers"
        return f" {actual}; expected {_expected(field, batch)}"
    if flaw.kind == space_rules.FIT:
        lacks = f"has numbers that {field.dtype} does not have"
        return f" {lacks}; expected {_expected(field, batch)}"
    first = _first(array, flaw.place)
    if flaw.kind == space_rules.FINITE:
        return f"{first}; expected a finite number"
    assert bounds is not None  # they are broken
    low, high = (np.broadcast_to(x, array.shape)[flaw.place] for x in bounds)
    return f"{first}; expected from {low} to {high}"


def _bounds(space: Mapping[str, Any]) -> space_rules.Bounds | None:
    """Return the smallest and largest whole numbers; None for a Box.

    The bounds of a Box may differ between the environment and what is observed.
    """
    if space["type"] == "Discrete":
        return space["start"], space["start"] + space["n"] - 1
    if space["type"] == "MultiDiscrete":
        low = np.asarray(space["start"])
        return low, low + np.asarray(space["nvec"]) - 1
    return (0, 1) if space["type"] == "MultiBinary" else None


def _check_mask(array: np.ndarray, where: str) -> None:
    valid = array.astype(bool)
    if (array != valid).any():
        wrong = _first(array, space_rules.first(array != valid))
        raise UserError(
            f"{where}{wrong}; expected 1 for each possible action and 0 for others"
        )
    possible = np.asarray(valid.any(-1))
    if not possible.all():
        row = [*space_rules.first(~possible)]
        raise UserError(
            f"{where}{row or ''} is all zeros; expected at least one possible action"
        )


def _first(array: np.ndarray, place: tuple[int, ...]) -> str:
    """Return the place and the value of a number that is wrong."""
    return f"{list(place) or ''} is {array[place]}"


def _expected(field: Array, batch: bool) -> str:
    kind = "numbers" if field.dtype.startswith("float") else f"{field.dtype} numbers"
    if batch:
        return f"{kind} of shape [{', '.join(map(str, ('B', *field.shape)))}], a batch"
    if not field.shape:
        return "a number" if kind == "numbers" else f"a number of {field.dtype}"
    if len(field.shape) == 1:
        return f"{field.shape[0]} {kind}"
    return f"{kind} of shape {list(field.shape)}"


def _joined(keys: Any) -> str:
    return ", ".join(sorted(map(str, keys)))
