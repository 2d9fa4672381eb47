"""ReAgent's form of samples: dense lists, numbers of actions and masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfagents_batch.offline.sql import literals

PRESENCE = "_presence"  # suffix of a list of flags: which entries are present
MASK = "_mask"  # suffix of a list of flags: which actions are possible
POSSIBLE = "possible_actions" + MASK
_MISSING = -1337.1337  # value of ReAgent for a missing feature
_NEAR = 1e-4  # more than the error of that value as a float32


def without_missing(value: str, kind: str) -> str:
    """Return features without those that have ReAgent's value for a missing one.

    Args:
      value: expression of a map from ids to numbers, or of lists of maps.
      kind: its type.
    """
    if kind.endswith("[]"):
        inner = without_missing("features", kind[:-2])
        return f"list_transform({value}, lambda features: {inner})"
    is_there = f"coalesce(abs(pair.value - {_MISSING}) > {_NEAR}, true)"
    pairs = f"list_filter(map_entries({value}), lambda pair: {is_there})"
    return f"map_from_entries({pairs})::{kind}"


def action_names(value: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return expressions of names of actions instead of their numbers and masks.

    Args:
      value: expressions of the columns.
      names: names of the actions in the order of their numbers.
    """
    listed, found = literals(names), {}
    for name in {"action", "next_action"} & value.keys():
        number = f"TRY_CAST({value[name]} AS INTEGER)"
        found[name] = (  # the number after the last is no action
            f"CASE WHEN {number} = {len(names)} THEN '' ELSE "
            f"coalesce({listed}[{number} + 1], {value[name]}) END"
        )
    for name in ("possible_actions", "possible_next_actions"):
        if name + MASK in value:
            flag = f"{name}{MASK}[k] = 1"
            numbers = f"list_filter(range(1, {len(names)} + 1), lambda k: {flag})"
            found[name] = f"list_transform({numbers}, lambda k: {listed}[k])"
    return found
