"""Names that occur in rows: actions, features and metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from tfagents_batch.offline.reading.dialect import Dialect
from tfagents_batch.offline.schema import Mode, Schema, in_order


class Content(NamedTuple):
    """Name that occurs in rows."""

    # "action", "possible_action", "final_possible_action", "feature", "action_feature"
    # or "metric"
    kind: str
    name: str | int  # name of the action or the metric, or id of the feature
    times: int  # number of its occurrences


def query(view: str, mode: Mode, dialect: Dialect, absent: Collection[str] = ()) -> str:
    """Return the query of all contents of a view: kind, name as a string, count.

    Columns that are ``absent``, which are NULL in all rows, are not read.
    """
    action = dialect.name("action")
    entries = [
        ("feature", "state_features", "map_keys(state_features)"),
        ("feature", "final_state_features", "map_keys(final_state_features)"),
        ("metric", "metrics", "map_keys(metrics)"),
    ]
    lists = "possible_actions", "final_possible_actions"
    if mode == "discrete":
        entries.append(("action", "action", dialect.list([action], "VARCHAR[]")))
        entries += [(column.removesuffix("s"), column, column) for column in lists]
    else:
        entries.append(("action_feature", "action", f"map_keys({action})"))
    if mode == "parametric":
        for column in lists:
            keys = dialect.each(column, "one", "map_keys(one)")
            entries.append(("action_feature", column, f"flatten({keys})"))
    text = dialect.type("VARCHAR")
    counts = " UNION ALL ".join(
        f"SELECT '{kind}' AS kind, CAST(name AS {text}) AS name, number "
        f"FROM ({dialect.counted(names, view)}) AS each"
        for kind, column, names in entries
        if column not in absent
    )
    return (
        f"SELECT kind, name, CAST(sum(number) AS BIGINT) FROM ({counts}) AS counts "
        "WHERE name <> '' GROUP BY kind, name"
    )


def sorted_contents(rows: Iterable[tuple]) -> tuple[Content, ...]:
    """Return the result of ``query``, sorted."""
    return tuple(
        sorted(
            Content(kind, int(name) if kind.endswith("feature") else name, count)
            for kind, name, count in rows
        )
    )


def schema_of(
    contents: tuple[Content, ...], mode: Mode, extra_columns: tuple[str, ...]
) -> Schema:
    """Return the schema of rows.

    Names of actions that are all integers are sorted as numbers, others as text.
    """

    def names(*kinds: str) -> tuple:
        return tuple(sorted({x.name for x in contents if x.kind in kinds}))

    return Schema(
        mode,
        actions=in_order(names("action", "possible_action", "final_possible_action")),
        features=names("feature"),
        action_features=names("action_feature"),
        metrics=names("metric"),
        extra_columns=extra_columns,
    )
