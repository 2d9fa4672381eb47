"""Columns of logged rows, one decision each, and what a set of rows contains.

The names are those of Horizon (Gauci et al. 2018, arXiv:1811.00260), so its logs are
read unchanged. A reader, the validator, the timeline and dense batches follow the same
schema; no column is renamed on the way.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from tfagents_batch.errors import UserError
from tfagents_batch.offline import publish

Mode = Literal["discrete", "parametric", "continuous"]
FEATURES = "MAP(BIGINT, DOUBLE)"
METRICS = "MAP(VARCHAR, DOUBLE)"
# Type of an action in DuckDB's words: a name, or features of what was chosen.
ACTION: dict[str, str] = {
    "discrete": "VARCHAR",
    "parametric": FEATURES,
    "continuous": FEATURES,
}
# Columns without which rows cannot be read, and all others that have a meaning.
NEEDED = ("ds", "mdp_id", "sequence_number", "state_features", "action", "reward")
_TYPES = {
    "ds": "VARCHAR",
    "mdp_id": "VARCHAR",
    "sequence_number": "BIGINT",
    "state_features": FEATURES,
    "action": "{action}",
    "action_probability": "DOUBLE",
    "action_log_density": "DOUBLE",
    "reward": "DOUBLE",
    "possible_actions": "{action}[]",
    "metrics": METRICS,
    "terminated": "BOOLEAN",
    "truncated": "BOOLEAN",
    "final_state_features": FEATURES,
    "final_possible_actions": "{action}[]",
    "request_id": "VARCHAR",
    "model_version": "VARCHAR",
    "policy": "VARCHAR",
}
ALIAS = "propensity"  # name of action_probability in SQL of Horizon
ALIASED = f"column {ALIAS} is read as action_probability where that is missing"
PRESENCE = "_presence"  # suffix of the flags beside lists of features (ReAgent)
# Numbers below it can be added and subtracted; times in nanoseconds are.
LARGEST_NUMBER = 2**62
_LISTS = "possible_actions", "final_possible_actions"  # not of continuous actions


@dataclasses.dataclass(frozen=True)
class Schema:
    """Contents of rows."""

    # "discrete" for actions with names, "parametric" for actions with features,
    # "continuous" for vectors of numbers
    mode: Mode = "discrete"
    actions: tuple[str, ...] = ()  # names in the order of their numbers; discrete only
    features: tuple[int, ...] = ()  # ids of state features, ascending
    action_features: tuple[int, ...] = ()  # ids of an action's, ascending; not discrete
    metrics: tuple[str, ...] = ()  # names of the parts of the reward, sorted
    extra_columns: tuple[str, ...] = ()  # names of further columns, which are kept

    def to_json(self) -> str:
        """Return the text of a file that ``read`` reads."""
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_dict(cls, content: Any, where: str | Path = "this") -> Schema:
        """Return the schema of what ``to_json`` wrote; UserError for anything else."""
        try:
            pairs = content.items()
            schema = cls(
                **{k: tuple(x) if isinstance(x, list) else x for k, x in pairs}
            )
        except (TypeError, AttributeError) as error:
            raise UserError(f"{where} is no schema of logged rows: {error}") from error
        if schema.mode not in get_args(Mode):
            raise UserError(
                f"the schema's mode is {schema.mode!r}; expected one of "
                f"{', '.join(get_args(Mode))}"
            )
        return schema

    def difference(self, other: Schema) -> str:
        """Return one line on what differs in another schema; empty if nothing does."""
        parts = []
        for field in dataclasses.fields(self):
            before, after = getattr(self, field.name), getattr(other, field.name)
            if before == after:
                continue
            if not isinstance(before, tuple):
                parts.append(f"{field.name} {before} became {after}")
            elif set(before) == set(after):
                parts.append(f"{field.name} have another order")
            else:
                gone = ", ".join(map(str, sorted(set(before) - set(after))))
                came = ", ".join(map(str, sorted(set(after) - set(before))))
                parts.append(
                    field.name
                    + (f" lost {gone}" if gone else "")
                    + (" and" if gone and came else "")
                    + (f" gained {came}" if came else "")
                )
        return "; ".join(parts)


def read(path: str | Path) -> Schema:
    """Return the schema of a file; UserError if it cannot be read, or has no schema."""
    return Schema.from_dict(publish.read_json(path), path)


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return names sorted: as numbers if all of them are integers, else as text."""
    names = sorted(names)
    return tuple(sorted(names, key=int) if all(map(is_integer, names)) else names)


def is_integer(name: str) -> bool:
    """Return whether a name is the decimal number of an action."""
    return re.fullmatch(r"-?[0-9]+", name) is not None


def types(mode: Mode) -> Mapping[str, str]:
    """Return the columns that have a meaning in a mode, with their DuckDB types."""
    return {
        name: kind.format(action=ACTION[mode])
        for name, kind in _TYPES.items()
        if mode != "continuous" or name not in _LISTS
    }
