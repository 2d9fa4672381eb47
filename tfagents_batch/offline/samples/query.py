"""Query of samples in the form of this package's timeline.

Columns that Horizon and ReAgent do not write follow from those that are there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tfagents_batch.errors import UserError
from tfagents_batch.offline.engines.dialect import DUCKDB
from tfagents_batch.offline.samples.columns import MASK, OF_NEXT
from tfagents_batch.offline.schema import ACTION, FEATURES, METRICS, Mode
from tfagents_batch.offline.sql import identifier, literal, literals
from tfagents_batch.offline.timeline_config import TimelineConfig
from tfagents_batch.offline.timeline_sql import key_of_episode, power, split

_NO_METRICS, _NO_FEATURES = f"MAP {{}}::{METRICS}", f"MAP {{}}::{FEATURES}"
_NAMES = (
    *("ds", "mdp_id", "mdp_key", "split", "state_features", "action"),
    *("action_probability", "reward", "metrics", "next_state_features"),
    *("next_action", "sequence_number", "sequence_number_ordinal"),
    *("time_diff", "time_since_first", "step", "not_terminal", "discount"),
)


def query(
    view: str,
    given: Mapping[str, str],
    mode: Mode,
    config: TimelineConfig,
    actions: Sequence[str],
) -> str:
    """Return the query of samples.

    Args:
      view: view of the given samples.
      given: expression of each column that is there, with one reward per sample.
      mode: kind of actions.
      config: gives discounts and, where samples do not say it, the split of episodes.
      actions: names of all actions, empty if they are not known.
    """
    value = dict(given)
    value |= _times(value)
    by_time = config.discount == "time"
    value.setdefault("step", "1")
    exponent = value["time_diff" if by_time else "step"]
    value.setdefault("discount", power(exponent, config))
    value |= _without_null(value, mode)
    value.setdefault("not_terminal", _not_terminal(value, mode))
    value.setdefault("mdp_key", key_of_episode(config))
    value.setdefault("split", split(value["mdp_key"], config))
    value.setdefault("ds", "NULL::VARCHAR")
    names = [*_NAMES]
    if mode == "continuous":
        value.setdefault("action_log_density", "NULL::DOUBLE")
        names.append("action_log_density")
    else:
        choices = _choices(value, mode, actions)
        value |= choices
        names += choices
    listed = ", ".join(f"{value[x]} AS {identifier(x)}" for x in names)
    return f"SELECT * FROM (SELECT {listed} FROM {view}) WHERE split IS NOT NULL"


def reduced(
    names: Collection[str], config: TimelineConfig, metrics: Sequence[str]
) -> dict[str, str]:
    """Return the sums of rewards and metrics, and the last entries of other arrays."""
    found = {name: f"{name}[-1]" for name in OF_NEXT if name in names}
    exponent = "i - 1"
    if config.discount == "time":
        exponent = "CASE WHEN i = 1 THEN 0 ELSE time_diff[i - 1] END"
    factor = power(exponent, config)

    def summed(value: str) -> str:
        return DUCKDB.sum("len(reward)", "i", f"{factor} * {value}")

    found["reward"] = summed("reward[i]")
    sums = [summed(f"coalesce(metrics[i][{literal(x)}], 0)") for x in metrics]
    found["metrics"] = DUCKDB.map(map(literal, metrics), sums, METRICS)
    if "step" not in names:
        found["step"] = "len(reward)"
    return found


def action_names(value: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return expressions of names of actions instead of their numbers and masks."""
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


def _times(value: Mapping[str, str]) -> dict[str, str]:
    """Return the place of a sample in its episode, and the time to its next row."""
    sequence = value.get("sequence_number", value.get("sequence_number_ordinal"))
    if sequence is None:
        raise UserError(
            "the samples lack sequence_number; expected it, or sequence_number_ordinal"
        )
    order = "PARTITION BY mdp_id ORDER BY sequence_number"
    ordinal = value.get("sequence_number_ordinal", f"row_number() OVER ({order})")
    since = f"{sequence} - min(sequence_number) OVER (PARTITION BY mdp_id)"
    return {
        "sequence_number": sequence,
        "sequence_number_ordinal": ordinal,
        "time_since_first": value.get("time_since_first", since),
        "time_diff": f"coalesce({value.get('time_diff', '1')}, 0)",
    }


def _without_null(value: Mapping[str, str], mode: Mode) -> dict[str, str]:
    """Return columns whose absent values have a form of their own."""
    no_action = "''" if mode == "discrete" else _NO_FEATURES
    probability = value.get("action_probability", value.get("propensity", "NULL"))
    return {
        "state_features": f"coalesce({value['state_features']}, {_NO_FEATURES})",
        "next_state_features": (
            f"coalesce({value['next_state_features']}, {_NO_FEATURES})"
        ),
        "metrics": f"coalesce({value.get('metrics', 'NULL')}, {_NO_METRICS})",
        "next_action": f"coalesce({value.get('next_action', 'NULL')}, {no_action})",
        "action_probability": f"{probability}::DOUBLE",
    }


def _not_terminal(value: Mapping[str, str], mode: Mode) -> str:
    """Return whether a sample has a next row that counts, as Horizon has it."""
    if mode != "continuous" and "possible_next_actions" in value:
        return f"coalesce(len({value['possible_next_actions']}) > 0, false)"
    if mode == "discrete":
        return f"{value['next_action']} <> ''"
    return f"cardinality({value['next_action']}) > 0"


def _choices(
    value: Mapping[str, str], mode: Mode, actions: Sequence[str]
) -> dict[str, str]:
    """Return the possible actions; all that are known, if a sample does not say it."""
    nothing = f"[]::{ACTION[mode]}[]"
    everything = literals(actions) if mode == "discrete" and actions else nothing
    after = f"CASE WHEN {value['not_terminal']} THEN {everything} ELSE {nothing} END"
    others = {"possible_actions": everything, "possible_next_actions": after}
    return {
        name: f"coalesce({value.get(name, 'NULL')}, {other})"
        for name, other in others.items()
    }
