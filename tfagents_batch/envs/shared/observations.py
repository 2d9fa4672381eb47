"""Checks of observations, of one environment or of a batch, and their copy.

Shape and dtype are checked at every step. Ranges, keys and bounds are checked in the
first steps of an environment and in some steps after, see ``validation``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs

from tfagents_batch import spaces
from tfagents_batch.envs.shared import layout
from tfagents_batch.envs.shared import observation_rules as rules
from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.shared.options import OFF, RAISE, REPLACE, TRUNCATE
from tfagents_batch.envs.shared.validation import refuse, reward_defects
from tfagents_batch.space_rules import BOUNDS, FIT


class ObservationWriter:
    """Checks observations and copies them into rows of the shared arrays."""

    def __init__(self, space: gymnasium.Space, arrays: list[np.ndarray]):
        self._space = space
        self._leaves = [
            (leaf, spaces.field(leaf.path), array)
            for leaf, array in zip(spaces.leaves(space), arrays, strict=True)
        ]
        self._write = [_writer(*leaf) for leaf in self._leaves]
        self._nested = isinstance(space, (gs.Dict, gs.Tuple))
        # Takes row and observation; checks shapes and dtypes, and copies.
        self.write = self._write_nested if self._nested else self._write[0]
        self._float = [
            (name, array)
            for leaf, name, array in self._leaves
            if np.dtype(leaf.dtype).kind == "f" and array.size
        ]
        # The cheapest check: the product with zeros is NaN if a number is not finite.
        # vdot is the only NumPy product that gives no warning.
        flats = [array.reshape(-1) for _, array in self._float]
        self._flat = [(flat, np.zeros_like(flat)) for flat in flats]

    def write_batch(self, value: Any) -> None:
        """Check and copy a batched observation, or raise a Defect."""
        flat = rules.flat(self._space, value)
        for part, (leaf, name, array) in zip(flat, self._leaves, strict=True):
            part = np.asanyarray(part)  # masks remain, and are refused
            kinds = FIT if isinstance(leaf.space, gs.Box) else BOUNDS
            refuse(rules.leaf_defects(leaf, part, name, array.shape[:1], [kinds]))
            array[:] = part

    def inspect(self, value: Any) -> list[str]:
        """Check the keys, ranges and bounds of one observation, or raise a Defect.

        Return the names of leaves outside their Box, which is no defect.
        """
        outside, flat = [], [value]
        if self._nested:
            nesting = rules.no_defects
            refuse(rules.observation_defects(self._space, value, nesting))
            flat = spaces.flatten(self._space, value)
        for (leaf, name, _), part in zip(self._leaves, flat, strict=True):
            for defect in rules.leaf_defects(leaf, part, name):
                if defect.kind == "bounds" and isinstance(leaf.space, gs.Box):
                    outside.append(name)
                elif defect.kind != "finite":  # ``not_finite`` checks all rows at once
                    raise defect
        return outside

    def outside(self) -> dict[str, int]:
        """Return ``{leaf: rows outside the bounds of its Box}``, not a defect."""
        counts = {}
        for leaf, name, array in self._leaves:
            if isinstance(leaf.space, gs.Box):
                low, high = rules.bounds(leaf.space)
                if array.dtype.kind == "f":  # round the bounds like the observation
                    low, high = low.astype(array.dtype), high.astype(array.dtype)
                wrong = (array < low) | (array > high)
                if wrong.any():
                    counts[name] = int(wrong.reshape(len(array), -1).any(axis=1).sum())
        return counts

    def not_finite(self) -> dict[int, str]:
        """Return ``{row: leaf's name}`` of the rows that contain NaN or infinity."""
        names: dict[int, str] = {}
        if not any(np.vdot(flat, zeros) for flat, zeros in self._flat):
            return names
        for name, array in self._float:
            finite = np.isfinite(array)
            if not finite.all():
                rows = ~finite.reshape(len(array), -1).all(axis=1)
                for row in np.flatnonzero(rows):
                    names.setdefault(int(row), name)
        return names

    def where_not_finite(self, row: int) -> str:
        """Return the places of a row's numbers that are not finite, as text."""
        for _, array in self._float:
            places = np.argwhere(~np.isfinite(array[row])).tolist()
            if places:
                more = f" and {len(places) - 3} more places" if len(places) > 3 else ""
                shown = ", ".join(str(place) for place in places[:3])
                return f" at {shown}{more}" if places[0] else ""
        return ""

    def _write_nested(self, row: int, value: Any) -> None:
        flat = rules.flat(self._space, value)
        for write, leaf in zip(self._write, flat, strict=True):
            write(row, leaf)


class FiniteCheck:
    """Check of all rows of a stepper after each reset and step, see ``EnvOptions``.

    ``note`` takes row, control word and text, and counts a replaced number.
    """

    def __init__(
        self,
        reaction: str,
        observations: ObservationWriter,
        arrays: layout.Arrays,
        note: Callable[[int, int, str], None] | None = None,
    ):
        self.enabled = reaction != OFF
        self._reaction = reaction
        self._observations = observations
        self._arrays = arrays
        self._note = note
        self._truncated: list[int] = []  # rows of this step
        # Previous observations, needed to replace numbers that are not finite.
        used = reaction in (REPLACE, TRUNCATE)
        self._last = [(array.copy(), array) for array in arrays.observation if used]

    def reward(self, row: int, reward: float) -> float:
        """Return what replaces a reward that float32 cannot represent, or raise."""
        if self._reaction == RAISE:
            refuse(reward_defects(reward))
        self._replaced(row, "reward")
        return 0.0

    def check(self, failed: Collection[int] = ()) -> list[Defect]:
        """Return the defects of rows that have not ``failed``; none if replaced."""
        if not self.enabled:
            return []
        defects = []
        for row, name in sorted(self._observations.not_finite().items()):
            if row in failed:
                continue
            if self._reaction == RAISE:
                where = self._observations.where_not_finite(row)
                text = f"{name} has NaN or infinite values{where}"
                defects.append(Defect(text, "finite", name, row))
                continue
            self._replaced(row, name)
            first = bool(self._arrays.first[row])
            for stored, array in self._last:
                if array.dtype.kind == "f":
                    last = np.zeros_like(stored[row]) if first else stored[row]
                    array[row] = np.where(np.isfinite(array[row]), array[row], last)
        return defects

    def truncated(self) -> list[int]:
        """Return the rows to truncate, with their previous observations restored.

        To be called once at the end of each reset and step.
        """
        rows, self._truncated = self._truncated, []
        for stored, array in self._last:
            array[rows] = stored[rows]
            stored[...] = array
        return rows

    def _replaced(self, row: int, name: str) -> None:
        check = f"(finite_check={self._reaction!r}); counted in env/not_finite"
        assert self._note is not None  # see the class
        self._note(row, layout.NOT_FINITE, f"{name} has NaN or infinite values {check}")
        if self._reaction == TRUNCATE:
            self._truncated.append(row)


def coerce(space: gymnasium.Space, value: Any) -> Any:
    """Convert an observation to the dtypes of its space, for lenient interfaces.

    Gymnasium environments must match their spaces. Those of other interfaces return
    lists, Python numbers or float64 where the space says float32. Numbers become floats
    of the space's width. Integers and bools become integers of another width if all
    values fit. Anything else stays unchanged, and the checks of the worker refuse it.
    """
    if isinstance(space, gs.Dict):
        if not isinstance(value, dict):
            return value
        known = space.spaces
        return {k: coerce(known[k], x) if k in known else x for k, x in value.items()}
    if isinstance(space, gs.Tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(space.spaces):
            return value
        return tuple(map(coerce, space.spaces, value))
    if isinstance(space, gs.Discrete):
        single = isinstance(value, np.ndarray) and value.size == 1
        if single and value.dtype.kind in "iub":
            return int(value.item())
        return int(value) if isinstance(value, np.bool_) else value
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        return value
    dtype = np.dtype(space.dtype)
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in ("fiub" if dtype.kind == "f" else "iub"):
        return value
    with np.errstate(over="ignore"):  # infinity has its own check
        cast = array.astype(dtype)
    return cast if dtype.kind == "f" or (cast == array).all() else value


def outside_text(names: Iterable[str]) -> str:
    """Return the note about leaves outside their Box, which is not a defect."""
    return (
        f"{', '.join(names)} lies outside the bounds of its space; counted in "
        "env/observation_out_of_bounds"
    )


def _writer(
    leaf: spaces.Leaf, name: str, array: np.ndarray
) -> Callable[[int, Any], None]:
    """Return a function that checks a value of one leaf and copies it into a row."""
    if isinstance(leaf.space, gs.Discrete):
        return _discrete_writer(leaf, name, array)
    shape = leaf.shape
    wide, narrow = np.dtype(leaf.space.dtype), np.dtype(leaf.dtype)
    narrows_integers = wide != narrow and wide.kind in "iu"
    ndarray = np.ndarray
    rows = [array[row, ...] for row in range(len(array))]  # faster than indexing

    def write(row, value):
        if type(value) is not ndarray or value.dtype != wide or value.shape != shape:
            refuse(rules.form_defects(leaf, value, name))
        rows[row][...] = value
        if narrows_integers and (rows[row] != value).any():
            refuse(rules.leaf_defects(leaf, value, name, kinds=[FIT, BOUNDS]))

    return write


def _discrete_writer(
    leaf: spaces.Leaf, name: str, array: np.ndarray
) -> Callable[[int, Any], None]:
    low, high = rules.bounds(leaf.space)

    def write(row, value):
        if not isinstance(value, (int, np.integer)):
            refuse(rules.form_defects(leaf, value, name))
        if not low <= value <= high:
            refuse(rules.leaf_defects(leaf, value, name, kinds=[BOUNDS]))
        array[row] = value

    return write
