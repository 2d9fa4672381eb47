"""Rules of single rows, as SQL conditions.

NULL in a condition counts as not broken.
"""

from __future__ import annotations

from typing import NamedTuple

from tfagents_batch.offline.reading.dialect import (
    DUCKDB,
    enumeration,
    identifier,
    literal,
    weighted,
)
from tfagents_batch.offline.report import ERROR, WARNING
from tfagents_batch.offline.schema import LARGEST_NUMBER, Mode

# Names of all rules that are warnings, those of the validator included.
WARNINGS = (
    *("missing_propensity", "small_propensity", "marker_reward", "reward_of_metrics"),
    *("day_backwards", "clock_backwards", "sequence_gap", "no_terminal"),
    *("rare_feature", "common_action", "smaller_schema", "duplicate_key"),
    "two_forms",
)
# Values without which a row means nothing; those of a state are optional in an end
# marker, and ``action`` is empty there.
_ALWAYS = ("ds", "mdp_id", "sequence_number")
_LARGEST = 3.4028234663852886e38  # largest number of float32, which agents compute in
IN_ORDER = f"BETWEEN {-LARGEST_NUMBER} AND {LARGEST_NUMBER}"  # of sequence_number
_OF_DECISIONS = ("state_features", "action", "reward")
_LISTS = ("possible_actions", "final_possible_actions")


class Rule(NamedTuple):
    """Rule of single rows."""

    name: str  # name of the rule
    condition: str  # SQL of whether a row breaks it
    text: str  # what is wrong, what was expected and what to do
    value: str = "NULL::VARCHAR"  # SQL of the value to show
    severity: str = ERROR
    unless_all: bool = False  # True if the rule is fulfilled when all rows break it


def marker(mode: Mode) -> str:
    """Return the SQL of whether a row is an end marker, never NULL.

    An end marker has an empty action or an empty list of possible actions.
    """
    empty = "action = ''" if mode == "discrete" else "cardinality(action) = 0"
    if mode != "continuous":
        empty = f"len(possible_actions) = 0 OR {empty}"
    return f"coalesce({empty}, false)"


def rules(
    mode: Mode,
    actions: tuple[str, ...],
    floor: float,
    with_propensities: bool,
    weights: dict[str, float],
) -> list[Rule]:
    """Return the rules of single rows.

    No ``actions`` allow all names, and without ``weights`` of metrics the reward is not
    compared with their sum. The other arguments are as in ``validator.Options``.
    """
    all_rules = _missing(mode) + _numbers(mode) + _keys(mode)
    if mode != "continuous":
        all_rules += _possible_actions(mode)
    if mode == "discrete" and actions:
        known = enumeration(actions)
        all_rules.append(
            Rule(
                "unknown_action",
                f"(NOT {marker(mode)} AND {_unknown('action', known)}) OR "
                f"{_some_unknown('possible_actions', known)} OR "
                f"{_some_unknown('final_possible_actions', known)}",
                f"an action is none of {', '.join(actions)}; correct the rows, or add "
                "it to the schema",
                "concat(action::VARCHAR, ' of ', possible_actions::VARCHAR, ' then ', "
                "final_possible_actions::VARCHAR)",
            )
        )
    all_rules += _propensities(mode, floor, with_propensities)
    all_rules += [
        Rule(
            "both_flags",
            "terminated AND truncated",
            "terminated and truncated are both true; a row has at most one of them",
            "'terminated and truncated'",
        ),
        Rule(
            "marker_reward",
            f"{marker(mode)} AND (reward <> 0 OR "
            "len(list_filter(map_values(metrics), lambda v: v <> 0)) > 0)",
            "an end marker has a reward or metrics, and they are lost; log them in the "
            "last row before it",
            "concat('reward ', reward, ', metrics ', metrics::VARCHAR)",
            WARNING,
        ),
    ]
    if weights:
        terms = weighted(DUCKDB, weights)
        all_rules.append(
            Rule(
                "reward_of_metrics",
                f"NOT {marker(mode)} AND abs(reward - ({terms})) > 1e-6",
                "the reward is not the weighted sum of the metrics",
                f"concat('reward ', reward, ', metrics give ', {terms})",
                WARNING,
            )
        )
    return all_rules


def _unknown(name: str, known: str) -> str:
    """Return whether a name is none of an enumeration; the cast hashes it."""
    return f"({name} IS NOT NULL AND TRY_CAST({name} AS {known}) IS NULL)"


def _some_unknown(names: str, known: str) -> str:
    """Return whether a list has a name that is none of an enumeration."""
    return f"len(list_filter({names}, lambda name: {_unknown('name', known)})) > 0"


def _missing(mode: Mode) -> list[Rule]:
    decision = f" AND NOT {marker(mode)}"
    return [
        Rule(
            f"missing_{name}",
            _is_missing(name) + (decision if name in _OF_DECISIONS else ""),
            f"{name} is missing; every decision needs it",
        )
        for name in _ALWAYS + _OF_DECISIONS
    ]


def _is_missing(name: str) -> str:
    """Return the SQL of whether a column is NULL and is not in ``unread``."""
    unread = f"map_contains(unread, {literal(name)}) OR map_contains(unread, '')"
    return f"{identifier(name)} IS NULL AND NOT coalesce({unread}, false)"


def _bad(values: str) -> str:
    """Return the SQL of whether a list has NULL, or a number that training lacks."""
    return f"len(list_filter({values}, lambda v: v IS NULL OR {_beyond('v')})) > 0"


def _beyond(value: str) -> str:
    """Return the SQL of whether a number is not finite in float32."""
    return f"NOT abs({value}) <= {_LARGEST!r}"  # NaN is above all numbers


def _maps(mode: Mode) -> tuple[str, ...]:
    """Return the columns of maps."""
    actions = () if mode == "discrete" else ("action",)
    return "state_features", "final_state_features", "metrics", *actions


def _numbers(mode: Mode) -> list[Rule]:
    conditions = {name: _bad(f"map_values({name})") for name in _maps(mode)}
    for name in _LISTS if mode == "parametric" else ():
        values = f"flatten(list_transform({name}, lambda a: map_values(a)))"
        conditions[name] = _bad(values)
    conditions |= {name: _beyond(name) for name in ("reward", "action_log_density")}
    return [
        Rule(
            f"number_in_{name}",
            condition,
            f"a number in {name} is NULL, NaN, infinite or beyond float32; expected "
            "finite numbers: leave out what is not known",
            f"{name}::VARCHAR",
        )
        for name, condition in conditions.items()
    ] + [
        Rule(
            "large_sequence_number",
            f"sequence_number NOT {IN_ORDER}",
            "sequence_number is beyond 2^62; expected smaller numbers, such as a time "
            "in nanoseconds",
            "sequence_number::VARCHAR",
        )
    ]


def _keys(mode: Mode) -> list[Rule]:
    conditions = {name: _is_repeated(name) for name in _maps(mode)}
    for name in _LISTS if mode == "parametric" else ():
        some = f"list_filter({name}, lambda a: {_is_repeated('a')})"
        conditions[name] = f"len({some}) > 0"
    return [
        Rule(
            f"repeated_key_in_{name}",
            condition,
            f"a map in {name} has a key twice; expected each once",
            f"{name}::VARCHAR",
        )
        for name, condition in conditions.items()
    ]


def _is_repeated(value: str) -> str:
    """Return the SQL of whether a map has a key twice, which files can store."""
    return f"list_unique(map_keys({value})) <> cardinality({value})"


def _possible_actions(mode: Mode) -> list[Rule]:
    action, possible = "action", "possible_actions"
    if mode == "parametric":  # maps are equal only if their entries have one order
        action = "list_sort(map_entries(action))"
        possible = (
            "list_transform(possible_actions, lambda a: list_sort(map_entries(a)))"
        )
    decision = f"NOT {marker(mode)}"
    return [
        Rule(
            "impossible_action",
            f"{decision} AND NOT list_contains({possible}, {action})",
            "the action is not among possible_actions; log all actions that the policy "
            "could take",
            "concat(action::VARCHAR, ' of ', possible_actions::VARCHAR)",
        ),
        Rule(
            "repeated_possible_action",
            f"list_unique({possible}) <> len(possible_actions)",
            "possible_actions has an entry twice or NULL; expected each action once",
            "possible_actions::VARCHAR",
        ),
        Rule(
            "missing_final_possible_action",
            "len(list_filter(final_possible_actions, lambda a: a IS NULL)) > 0",
            "final_possible_actions has NULL; expected actions only",
            "final_possible_actions::VARCHAR",
        ),
        Rule(
            "missing_possible_actions",
            _is_missing("possible_actions"),
            "possible_actions is missing, but other rows have it; log it in every row",
            unless_all=True,
        ),
    ]


def _propensities(mode: Mode, floor: float, needed: bool) -> list[Rule]:
    decision = f"NOT {marker(mode)}"
    missing = f"{decision} AND {_is_missing('action_probability')}"
    if mode == "continuous":
        missing += " AND action_log_density IS NULL"
    return [
        Rule(
            "propensity",
            f"{decision} AND NOT (action_probability > 0 AND action_probability <= 1)",
            "action_probability is not above 0 and at most 1; expected the probability "
            "with which the whole logging policy takes the action",
            "action_probability::VARCHAR",
        ),
        Rule(
            "missing_propensity",
            missing,
            "action_probability is missing; a policy cannot be evaluated on these rows",
            severity=ERROR if needed else WARNING,
        ),
        Rule(
            "small_propensity",
            f"{decision} AND action_probability > 0 AND action_probability < {floor!r}",
            f"action_probability is below {floor:g}; estimates of a policy's value "
            "will be noisy",
            "action_probability::VARCHAR",
            WARNING,
        ),
    ]
