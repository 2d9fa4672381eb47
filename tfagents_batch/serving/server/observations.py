"""Observations in JSON as arrays of the model, one decision at a time.

Every complaint says what was wrong, where, and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.serving import json_spaces
from tfagents_batch.serving.description import Array, Description
from tfagents_batch.suggest import hint

Arrays = dict[str, np.ndarray]
Read = Callable[[Any, Arrays], None]
_LIMIT = 20  # names of features in an error
_SQUARES = 1e76  # of numbers that float32 has


class Observed(NamedTuple):
    """Observation of one decision.

    Attributes:
      arrays: inputs of the model by name, without batch axis.
      features: what was given by id, for exports with ids; None for others.
      missing: number of features that were not given: they are 0, or missing.
    """

    arrays: Arrays
    features: dict[str, float] | None
    missing: int


class Decision(NamedTuple):
    """Decision that is to be made.

    Attributes:
      observed: the observation, with the arrays of the model.
      mdp_id, sequence_number: where the decision belongs, or None.
    """

    observed: Observed
    mdp_id: str | None
    sequence_number: int | None


class Reader:
    """Reader of observations for one export.

    Args:
      description: of the export.
    """

    def __init__(self, description: Description):
        self._description = description
        self._leaves = {x.path: x for x in description.with_role("observation")}
        numbers = description.numbers
        # Ids belong to the only array besides the mask and the presence.
        by_id = description.features is not None and len(numbers) == 1
        by_id = by_id and numbers[0].shape == (len(description.features or ()),)
        self.ids = {str(x): k for k, x in enumerate(description.features or ())}
        self._vector = numbers[0] if by_id else None
        self._read = None
        if not by_id:
            space = description.observation_space
            self._read = self._reader(space, (), "observation")
        self._mask = next(
            (x for x in self._leaves.values() if x.name == description.mask), None
        )
        self._presence = next(
            (x for x in self._leaves.values() if x.name == description.presence), None
        )
        self._numbers = _numbers_of_actions(description)

    def read(self, value: Any, possible_actions: Any = None) -> Observed:
        """Return an observation as arrays.

        Args:
          value: JSON of the observation: a list, an object for a Dict, or an object of
            numbers by feature id.
          possible_actions: names or numbers of the actions that can be taken; None
            allows those of the observation's mask, or all.

        Raises:
          UserError: naming what was wrong and where.
        """
        arrays: Arrays = {}
        features, missing = None, 0
        if self._vector is not None:
            features, vector = self._by_id(value)
            arrays[self._vector.name] = vector
            if self._presence is not None:
                arrays[self._presence.name] = self._present(features)
            missing = len(self.ids) - len(features)
        else:
            self._read(value, arrays)
        self._add_mask(arrays, possible_actions)
        return Observed(arrays, features, missing)

    def _by_id(self, value: Any) -> tuple[dict[str, float], np.ndarray]:
        if not isinstance(value, dict):
            raise UserError(
                f"observation is {_text(value)}; expected an object of numbers by "
                f'feature, such as {{"{next(iter(self.ids), 0)}": 0.5}}'
            )
        found = np.zeros(len(self.ids), np.float32)
        for name, number in value.items():
            index = self.ids.get(name)
            if index is None:
                known = [*self.ids][:_LIMIT]
                rest = ", ..." if len(self.ids) > _LIMIT else ""
                raise UserError(
                    f"observation has the unknown feature {name!r:.50}; known: "
                    f"{', '.join(known)}{rest}"
                )
            found[index] = _finite(number, f"observation[{name!r}]")
        return value, found

    def _present(self, given: Mapping[str, float]) -> np.ndarray:
        """Return 1 for the features that were given, and 0 for others."""
        found = np.zeros(len(self.ids), self._presence.dtype)
        found[[self.ids[name] for name in given]] = 1
        return found

    def _add_mask(self, arrays: Arrays, possible: Any) -> None:
        if self._mask is None:
            if possible is not None:
                raise UserError(
                    "possible_actions is given, but this policy has no action mask; "
                    "leave it out"
                )
            return
        name = self._mask.name
        if possible is not None:
            if name in arrays:
                raise UserError(
                    f"both {name} and possible_actions are given; leave one out"
                )
            arrays[name] = self._possible(possible)
        elif name not in arrays:
            arrays[name] = np.ones(self._mask.shape, self._mask.dtype)
        elif not ((arrays[name] == 0) | (arrays[name] == 1)).all():
            raise UserError(
                f"{name} is {_text(arrays[name])}; expected 1 for each possible "
                "action and 0 for others"
            )
        elif not arrays[name].any():
            raise UserError(
                f"{name} is all zeros; expected at least one possible action"
            )

    def _possible(self, possible: Any) -> np.ndarray:
        if not isinstance(possible, list) or not possible:
            raise UserError(
                f"possible_actions is {_text(possible)}; expected a list of at least "
                "one action"
            )
        found = np.zeros(self._mask.shape, self._mask.dtype)
        for each in possible:
            known = isinstance(each, (str, int)) and not isinstance(each, bool)
            if not known or each not in self._numbers:
                names = {str(x) for x in self._numbers}
                raise UserError(
                    f"possible_actions has {_text(each)}, which is no action; "
                    f"{hint(str(each), names)}"
                )
            found[self._numbers[each]] = 1
        return found

    def _reader(self, space: Mapping[str, Any], path: tuple, where: str) -> Read:
        """Return a function that reads the JSON of a space into arrays."""
        if space["type"] == "Dict":
            return self._dict_reader(space["spaces"], path, where)
        if space["type"] == "Tuple":
            readers = [
                self._reader(inner, (*path, index), f"{where}[{index}]")
                for index, inner in enumerate(space["spaces"])
            ]

            def read_tuple(value: Any, arrays: Arrays) -> None:
                if not isinstance(value, list) or len(value) != len(readers):
                    raise UserError(
                        f"{where} is {_text(value)}; expected a list of "
                        f"{len(readers)} parts"
                    )
                for read, part in zip(readers, value, strict=True):
                    read(part, arrays)

            return read_tuple
        leaf = self._leaves[path]
        bounds = json_spaces.bounds(space)

        def read_leaf(value: Any, arrays: Arrays) -> None:
            arrays[leaf.name] = array = to_array(value, leaf, where)
            if bounds is not None and json_spaces.outside(array, bounds).any():
                low, high = map(_text, bounds)
                raise UserError(
                    f"{where} is {_text(value)}; expected from {low} to {high}"
                )

        return read_leaf

    def _dict_reader(self, parts: Mapping[str, Any], path: tuple, where: str) -> Read:
        readers = {
            key: self._reader(inner, (*path, key), f"{where}.{key}")
            for key, inner in parts.items()
        }
        mask = self._description.mask
        optional = {
            key
            for key in parts
            if (leaf := self._leaves.get((*path, key))) and leaf.name == mask
        }
        needed = readers.keys() - optional

        def read_dict(value: Any, arrays: Arrays) -> None:
            if not isinstance(value, dict):
                keys = ", ".join(readers)
                raise UserError(
                    f"{where} is {_text(value)}; expected an object with {keys}"
                )
            for key, part in value.items():
                read = readers.get(key)
                if read is None:
                    raise UserError(
                        f"{where} has the unknown key {key!r:.50}; "
                        f"{hint(key, readers.keys())}"
                    )
                read(part, arrays)
            if len(value) < len(readers) and not needed <= value.keys():
                missing = ", ".join(sorted(needed - value.keys()))
                raise UserError(f"{where} lacks {missing}; every key is needed")

        return read_dict


def to_array(value: Any, each: Array, where: str) -> np.ndarray:
    """Return JSON numbers as the array of an input.

    Args:
      value: a number or nested lists of numbers.
      each: the input.
      where: name of the value in errors.

    Raises:
      UserError: for another shape, other values than numbers, NaN and infinity, and
        numbers that the dtype does not have.
    """
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unequal lengths
        raise UserError(f"{where} is no array; expected {_expected(each)}") from None
    dtype = np.dtype(each.dtype)
    if array.dtype.kind not in ("fiu" if dtype.kind == "f" else "iub"):
        array = _repaired(value, array, where, each)
    if array.shape != each.shape:
        found = f"has shape {list(array.shape)}"
        if array.ndim == 1 and len(each.shape) == 1:
            found = f"has {len(array)} numbers"
        raise UserError(f"{where} {found}; expected {_expected(each)}")
    if dtype.kind == "f":
        # The sum of squares is below this only if no number is large or NaN; the test
        # takes a fraction of the time of ``isfinite``.
        if array.dtype.kind == "f" and not np.vdot(array, array) < _SQUARES:
            return _checked(array, dtype, where)
        return array.astype(dtype)
    found = array.astype(dtype)
    if dtype.kind != "b" and not np.array_equal(found, array):
        raise UserError(
            f"{where} has numbers that {dtype} does not have; expected "
            f"{_expected(each)}"
        )
    return found


def _repaired(value: Any, array: np.ndarray, where: str, each: Array) -> np.ndarray:
    """Return whole floats as integers, and numbers beside booleans as they are.

    Raises:
      UserError: for anything else.
    """
    if array.dtype.kind == "b":
        return array.astype(float)
    if array.dtype.kind == "f" and np.array_equal(array, np.trunc(array)):
        with np.errstate(invalid="ignore"):
            whole = array.astype(np.int64)
        if np.array_equal(whole, array):
            return whole
    for index, x in np.ndenumerate(np.asarray(value, object)):
        if isinstance(x, bool) or not isinstance(x, (int, float)):
            raise UserError(
                f"{where}{list(index) or ''} is {_text(x)}; expected {_expected(each)}"
            )
    raise UserError(f"{where} is {_text(value)}; expected {_expected(each)}")


def _checked(array: np.ndarray, dtype: Any, where: str) -> np.ndarray:
    """Return floats as another dtype.

    Raises:
      UserError: for NaN, infinity, and numbers that are too large for the dtype.
    """
    with np.errstate(over="ignore"):
        found = array.astype(dtype)
    wrong = np.argwhere(~np.isfinite(found))
    if len(wrong):
        index = wrong[0].tolist()
        raise UserError(
            f"{where}{index or ''} is {array[tuple(index)]}; expected a finite number"
        )
    return found


def _finite(value: Any, where: str) -> float:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not plain or not abs(value) < 3e38:  # also not NaN
        raise UserError(f"{where} is {_text(value)}; expected a finite number")
    return value


def _numbers_of_actions(description: Description) -> dict[str | int, int]:
    """Return the place in the mask of every name and number of an action."""
    if not description.is_discrete:
        return {}
    count, start = description.action_space["n"], description.start
    found: dict[str | int, int] = {start + k: k for k in range(count)}
    names = description.actions or [str(start + k) for k in range(count)]
    return found | {name: k for k, name in enumerate(names)}


def _expected(each: Array) -> str:
    kind = "numbers" if each.dtype.startswith("float") else f"{each.dtype} numbers"
    if not each.shape:
        return "a number" if kind == "numbers" else f"a number of {each.dtype}"
    if len(each.shape) == 1:
        return f"{each.shape[0]} {kind}"
    return f"{kind} of shape {list(each.shape)}"


def _text(value: Any) -> str:
    """Return a value in at most 80 characters."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    text = "null" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
