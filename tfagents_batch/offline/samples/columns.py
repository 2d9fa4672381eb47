"""Columns of samples and their types."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import duckdb

from tfagents_batch.errors import UserError
from tfagents_batch.offline.reading.conversion import converted
from tfagents_batch.offline.schema import ACTION, FEATURES, METRICS, PRESENCE, Mode
from tfagents_batch.offline.sql import identifier

MASK = "_mask"  # suffix of a list of flags of ReAgent: which actions are possible
POSSIBLE = "possible_actions" + MASK
_MISSING = -1337.1337  # value of ReAgent for a missing feature
_NEAR = 1e-4  # more than the error of that value as a float32
NEEDED = "mdp_id", "state_features", "action", "reward", "next_state_features"
OF_NEXT = "next_state_features", "next_action", "possible_next_actions", "time_diff"
# Columns that have an entry for each reward where samples have several.
_SEVERAL = ("reward", "metrics", *OF_NEXT)
_TYPES = {
    "ds": "VARCHAR",
    "mdp_id": "VARCHAR",
    "mdp_key": "BIGINT",
    "split": "VARCHAR",
    "sequence_number": "BIGINT",
    "sequence_number_ordinal": "BIGINT",
    "state_features": FEATURES,
    "action": "{action}",
    "action_probability": "DOUBLE",
    "action_log_density": "DOUBLE",
    "propensity": "DOUBLE",
    "reward": "DOUBLE",
    "metrics": METRICS,
    "next_state_features": FEATURES,
    "next_action": "{action}",
    "possible_actions": "{action}[]",
    "possible_next_actions": "{action}[]",
    "possible_actions_mask": "BIGINT[]",
    "possible_next_actions_mask": "BIGINT[]",
    "time_diff": "BIGINT",
    "time_since_first": "BIGINT",
    "step": "BIGINT",
    "not_terminal": "BOOLEAN",
    "discount": "DOUBLE",
}


def has_samples(columns: Collection[str]) -> bool:
    """Return whether columns are those of samples, not of logged rows."""
    return "next_state_features" in columns


def check(columns: Collection[str]) -> None:
    """Raise a UserError if columns are missing without which a row is no sample."""
    missing = [x for x in NEEDED if x not in columns]
    if missing:
        raise UserError(
            f"the samples lack {', '.join(missing)}; expected the columns "
            f"{', '.join(NEEDED)}"
        )


def types(columns: Collection[str], mode: Mode) -> dict[str, str]:
    """Return the types of the columns that are there and have a meaning."""
    found = {
        name: kind.format(action=ACTION[mode])
        for name, kind in _TYPES.items()
        if name in columns
    }
    if mode == "continuous":
        found = {k: x for k, x in found.items() if "possible" not in k}
    return found


def typed(columns: Mapping[str, Any], mode: Mode, several: bool) -> str:
    """Return expressions of all columns in their types; ``several`` rewards are lists.

    Raises:
      UserError: if a type has no reading.
    """
    selected = []
    for name, kind in types(columns, mode).items():
        if several and name in _SEVERAL:
            kind += "[]"
        flags, value = name + PRESENCE, identifier(name)
        present = identifier(flags) if flags in columns else ""
        source = columns[name]
        if str(source) == "JSON" and (kind.startswith("MAP") or "[]" in kind):
            source, value = duckdb.type("VARCHAR"), f"{value}::VARCHAR"
        found = converted(value, source, kind, name, present)
        if FEATURES in kind:
            found = _without_missing(found, kind)
        selected.append(f"{found} AS {identifier(name)}")
    return ", ".join(selected)


def _without_missing(value: str, kind: str) -> str:
    """Return features without those that have ReAgent's value for a missing one."""
    if kind.endswith("[]"):
        inner = _without_missing("features", kind[:-2])
        return f"list_transform({value}, lambda features: {inner})"
    is_there = f"coalesce(abs(pair.value - {_MISSING}) > {_NEAR}, true)"
    pairs = f"list_filter(map_entries({value}), lambda pair: {is_there})"
    return f"map_from_entries({pairs})::{kind}"
