"""Checks of a timeline: rows have an order, and a query accepts the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfagents_batch.errors import UserError
from tfagents_batch.offline.schema import LARGEST_NUMBER, Schema
from tfagents_batch.offline.timeline_config import TimelineConfig
from tfagents_batch.offline.timeline_sql import EPISODES, INPUT, OUTPUT, ROWS
from tfagents_batch.settings.suggest import unknown

if TYPE_CHECKING:
    from tfagents_batch.offline.reading.duckdb_engine import DuckDBEngine
    from tfagents_batch.offline.reading.spark_engine import SparkEngine

    Engine = DuckDBEngine | SparkEngine

_PLACEHOLDERS = {
    "{input}": INPUT,
    "{output}": OUTPUT,
    "{config.inputTableName}": INPUT,  # Horizon's names
    "{config.outputTableName}": OUTPUT,
}


def check_metrics(schema: Schema, config: TimelineConfig) -> None:
    """Raise a UserError if a name of ``metric_weights`` is no metric of the rows."""
    for name in config.metric_weights or {}:
        if name not in schema.metrics:
            text = unknown("metric", name, schema.metrics)
            raise UserError(f"metric_weights has the {text}")


def check_rows(engine: Engine, schema: Schema, config: TimelineConfig) -> None:
    """Check rows and episodes; a UserError says how many rows are wrong, and where."""
    final = "r.final_state_features IS NOT NULL"
    if schema.mode != "continuous":
        names = "r.final_possible_actions"
        final += f" OR ({names} IS NOT NULL AND NOT {engine.dialect.is_empty(names)})"
    faults = {
        "no mdp_id or no sequence_number; give every row both": (
            "r.mdp_id IS NULL OR r.sequence_number IS NULL"
        ),
        "a sequence_number beyond 2^62; use smaller numbers": (
            f"r.sequence_number NOT BETWEEN {-LARGEST_NUMBER} AND {LARGEST_NUMBER}"
        ),
        "an end marker, terminated or truncated, a final state, or "
        "final_possible_actions, before the last row of their episode; only its last "
        "row may end an episode": (
            "(r.is_end AND (r.sequence_number <= e.last OR e.markers > 1)) OR (NOT "
            "r.is_end AND r.sequence_number < e.last AND (r.terminated OR r.truncated "
            f"OR {final}))"
        ),
        "a reward that is missing or not finite; correct the log, or pass a "
        "custom_reward": "NOT r.is_end AND NOT coalesce(abs(r.reward) < "
        "CAST('Infinity' AS DOUBLE), false)",
    }
    if schema.mode == "discrete":
        # An action is never NULL here, and "" is none.
        known = ", ".join(map(engine.dialect.text, ("", *schema.actions)))
        faults[
            f"an action that is none of {', '.join(schema.actions)}; correct the log, "
            "or name all actions in the schema"
        ] = f"NOT r.is_end AND r.{engine.dialect.name('action')} NOT IN ({known})"
        other = f"name IS NULL OR name NOT IN ({known})"
        some = (
            f"array_contains({engine.dialect.each(f'r.{column}', 'name', other)}, true)"
            for column in ("possible_actions", "final_possible_actions")
        )
        faults[
            "a name in possible_actions or final_possible_actions that is none of "
            f"{', '.join(schema.actions)}; correct the log, or name all actions in the "
            "schema"
        ] = " OR ".join(some)
    joined = f"FROM {ROWS} r LEFT JOIN {EPISODES} e ON r.mdp_id = e.mdp_id"
    counts = ", ".join(f"count(*) FILTER (WHERE {x})" for x in faults.values())
    (numbers,) = engine.fetch(f"SELECT {counts} {joined}")
    for count, (text, condition) in zip(numbers, faults.items(), strict=True):
        if count:
            _refuse(engine, count, text, f"{joined} WHERE {condition}")
    if config.on_duplicate == "error":
        _check_unique(engine)


def _check_unique(engine: Engine) -> None:
    keys = f"""SELECT mdp_id, sequence_number FROM {ROWS}
      GROUP BY mdp_id, sequence_number HAVING count(*) > 1"""
    # Where no episode has fewer numbers than rows, the pairs need not be counted.
    ((count,),) = engine.fetch(
        f"SELECT count(*) FROM {EPISODES} WHERE numbers < length + markers"
    )
    if count:
        where = (
            f"FROM {ROWS} r JOIN ({keys}) AS k ON r.mdp_id = k.mdp_id "
            "AND r.sequence_number = k.sequence_number"
        )
        text = (
            "the mdp_id and sequence_number of another row; correct the log, or pass "
            "on_duplicate=first or last"
        )
        ((count,),) = engine.fetch(f"SELECT count(*) {where}")
        _refuse(engine, count, text, where)


def _refuse(engine: Engine, count: int, text: str, where: str) -> None:
    file, row = (f"r.{engine.dialect.name(x)}" for x in ("file", "row"))
    rows = engine.fetch(
        f"SELECT {file}, {row}, r.mdp_id, r.sequence_number {where} "
        f"ORDER BY {file}, {row}, r.mdp_id, r.sequence_number LIMIT 3"
    )
    places = "; ".join(
        f"{file}{'' if row is None else f', row {row}'} "
        f"(mdp_id {mdp_id}, sequence_number {number})"
        for file, row, mdp_id, number in rows
    )
    have = "row has" if count == 1 else "rows have"
    what, _, advice = text.partition("; ")
    raise UserError(f"{count:,} {have} {what}: {places}; {advice}")


def check_samples(engine: Engine, query: str) -> None:
    """Run ``validation_sql`` on samples; UserError unless one row is all true."""
    for name, view in _PLACEHOLDERS.items():
        query = query.replace(name, view)
    try:
        with engine.failing("validation_sql cannot be run"):
            rows = engine.fetch(query)
    except UserError as error:
        raise UserError(f"{error}; nothing is published") from None
    if len(rows) != 1 or not all(cell is True for cell in rows[0]):
        shown = ", ".join(map(str, rows[:3])) or "no row"
        raise UserError(
            f"validation_sql returned {shown}; expected one row in which all is true. "
            "Nothing is published"
        )
