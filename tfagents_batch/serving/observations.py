"""Observations of requests as arrays of the model, and its outputs as answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfagents_batch.errors import UserError
from tfagents_batch.serving.description import Description
from tfagents_batch.serving.inputs import Arrays, Structure, finite, text
from tfagents_batch.settings.suggest import hint

Answers = list[dict[str, Any]]
_LARGEST = 3e38  # number of a feature, which is float32
_LIMIT = 20  # names of features in an error


class DecisionRequest(NamedTuple):
    """Observation, and the decision that is to be made on it."""

    arrays: Arrays  # inputs of the model by name, without batch axis
    # Numbers that were given, by id, for exports with ids; None for others
    features: dict[str, float] | None
    # Number of features that were not given, or null: they are 0, or missing
    missing: int
    # mdp_id, sequence_number: where the decision belongs, or None
    mdp_id: str | None = None
    sequence_number: int | None = None
    # Number of names that the export does not know as values of a feature; they count
    # as missing, too
    unknown: int = 0


class Reader:
    """Reader of observations for the export of a ``description``."""

    def __init__(self, description: Description):
        self.description = description
        self._by_id = description.is_by_id
        self._structure = Structure(description, batch=False)
        self.ids = {str(x): k for k, x in enumerate(description.features or ())}
        self._names = description.names
        self._labels = {str(x): name for name, x in description.names.items()}
        self._numbers = {
            name: {x: k for k, x in enumerate(values)}
            for name, values in description.categories.items()
        }
        self._vector = description.numbers[0] if self._by_id else None
        leaves = {x.name: x for x in description.with_role("observation")}
        self._mask = leaves.get(description.mask)
        self._presence = leaves.get(description.presence)
        # Place in the mask of every name and number of an action.
        names = description.action_names
        self._places: dict[Any, int] = {name: k for k, name in enumerate(names)}
        self._places |= {description.start + k: k for k in range(len(names))}

    def read(self, value: Any, possible_actions: Any = None) -> DecisionRequest:
        """Return an observation as arrays; UserError says what is wrong and where.

        Args:
          value: JSON of the observation: a list, an object for a Dict, or an object of
            numbers by feature id; or of numbers and names by the name of a feature.
          possible_actions: names or numbers of the actions that can be taken; None
            allows those of the observation's mask, or all.
        """
        arrays: Arrays = {}
        features, missing, unknown = None, 0, 0
        if self._by_id:
            if self._names:
                value, unknown = self._by_name(value)
            features = self._read_by_id(value, arrays)
            missing = len(self.ids) - len(features)
        else:
            self._structure.read(value, arrays)
        if possible_actions is not None:
            self._read_possible(possible_actions, arrays)
        elif self._mask is not None and self._mask.name not in arrays:
            arrays[self._mask.name] = np.ones(self._mask.shape, self._mask.dtype)
        return DecisionRequest(arrays, features, missing, unknown=unknown)

    def _by_name(self, value: Any) -> tuple[Any, int]:
        """Return an object by the ids of features, and the number of unknown names."""
        if not isinstance(value, dict):
            return value, 0
        by_id: dict[str, Any] = {}
        unknown = 0
        for name, item in value.items():
            if name in self._numbers and item is not None:
                number = self._numbers[name].get(_category(item, name))
                unknown += number is None
                item = number
            key = str(self._names.get(name, name))
            if key in by_id:
                raise UserError(
                    f"observation has feature {key} twice, by its name and by its id; "
                    "leave one out"
                )
            by_id[key] = item
        return by_id, unknown

    def _read_by_id(self, value: Any, arrays: Arrays) -> dict[str, float]:
        """Add the arrays of an object of numbers by id; return those that are given."""
        if not isinstance(value, dict):
            raise UserError(
                f"observation is {text(value)}; expected an object of numbers by "
                f'feature, such as {{"{next(iter(self.ids), 0)}": 0.5}}'
            )
        vector = np.zeros(len(self.ids), np.float32)
        for name, number in value.items():
            index = self.ids.get(name)
            if index is None:
                names = [*(self._names or self.ids)]
                known, rest = names[:_LIMIT], ", ..." if len(names) > _LIMIT else ""
                raise UserError(
                    f"observation has the unknown feature {name!r:.50}; known: "
                    f"{', '.join(known)}{rest}"
                )
            if number is not None:
                label = self._labels.get(name, name)  # as callers know it
                vector[index] = finite(number, f"observation[{label!r}]", _LARGEST)
        numbers = value
        if None in value.values():  # missing, as in a row
            numbers = {name: x for name, x in value.items() if x is not None}
        assert self._vector is not None  # as features have ids
        arrays[self._vector.name] = vector
        if self._presence is not None:  # 1 for the features that were given
            present = np.zeros(len(self.ids), self._presence.dtype)
            present[[self.ids[name] for name in numbers]] = 1
            arrays[self._presence.name] = present
        return numbers

    def _read_possible(self, possible: Any, arrays: Arrays) -> None:
        if self._mask is not None and self._mask.name in arrays:
            raise UserError(
                f"both {self._mask.name} and possible_actions are given; leave one out"
            )
        if not isinstance(possible, list) or not possible:
            raise UserError(
                f"possible_actions is {text(possible)}; expected a list of at least "
                "one action"
            )
        places = set()
        for name in possible:
            # The number 1.0 is the key 1 of a dict, too.
            known = isinstance(name, (str, int, float)) and not isinstance(name, bool)
            if not known or name not in self._places:
                names = {str(x) for x in self._places}
                raise UserError(
                    f"possible_actions has {text(name)}, which is no action; "
                    f"{hint(str(name), names)}"
                )
            places.add(self._places[name])
        if self._mask is not None:
            mask = np.zeros(self._mask.shape, self._mask.dtype)
            mask[[*places]] = 1
            arrays[self._mask.name] = mask
        elif len(places) < len(self.description.action_names):
            # Rows have possible_actions also where all actions are always possible.
            raise UserError(
                "possible_actions leaves out some actions, but this policy has no "
                "action mask; leave it out"
            )


def _category(value: Any, name: str) -> str:
    """Return the name of a category as a table has it: 7.0 is "7", and true "true"."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        whole = isinstance(value, float) and value.is_integer()
        return str(int(value) if whole else value)
    raise UserError(
        f"observation[{name!r}] is {text(value)}; expected the name of a category"
    )


def stack(
    description: Description, decisions: Sequence[DecisionRequest]
) -> dict[str, np.ndarray]:
    """Return the arrays of decisions as one batch."""
    batch = {}
    for field in description.inputs:
        if field.role != "noise":
            array = np.empty((len(decisions), *field.shape), field.dtype)
            for index, decision in enumerate(decisions):
                array[index] = decision.arrays[field.name]
            batch[field.name] = array
    return batch


def split(description: Description, outputs: dict[str, Any]) -> Answers:
    """Return the outputs of each decision as JSON data, with the model's version."""
    version, names = description.version, description.actions
    lists = {name: x.tolist() for name, x in outputs.items() if name != "state"}
    if names is not None and "action" in lists:
        start = description.start
        lists["action_name"] = [names[x - start] for x in lists["action"]]
    if "state" in outputs:
        parts = [x.tolist() for x in outputs["state"]]
        lists["state"] = [list(row) for row in zip(*parts, strict=True)]
    rows = (
        dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)
    )
    if description.action_parts:
        rows = map(description.packed, rows)
    return [dict(row, model_version=version) for row in rows]


def not_finite(outputs: Mapping[str, Any]) -> dict[int, str]:
    """Return an output that has NaN or infinity, by row; JSON has neither of them."""
    names: dict[int, str] = {}
    for name, value in outputs.items():
        for array in value if name == "state" else (value,):
            # Finite for nearly all batches, and quicker than a test of each number.
            if array.dtype.kind != "f" or np.vdot(array, array) < np.inf:
                continue
            rows = ~np.isfinite(array.reshape(len(array), -1)).all(1)
            names |= dict.fromkeys(np.flatnonzero(rows).tolist(), name)
    return names
