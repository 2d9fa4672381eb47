"""What a timeline refuses: rows without an order, and samples that a query refuses."""

from __future__ import annotations

from typing import Any

from tfagents_batch.errors import UserError, first_line
from tfagents_batch.offline.schema import Schema
from tfagents_batch.offline.sql import literals
from tfagents_batch.offline.timeline_config import TimelineConfig
from tfagents_batch.offline.timeline_sql import EPISODES, INPUT, OUTPUT, ROWS
from tfagents_batch.suggest import unknown

_PLACEHOLDERS = {
    "{input}": INPUT,
    "{output}": OUTPUT,
    "{config.inputTableName}": INPUT,  # Horizon's names
    "{config.outputTableName}": OUTPUT,
}


def check_metrics(schema: Schema, config: TimelineConfig) -> None:
    """Check that the metrics of ``metric_weights`` are metrics of the rows.

    Raises:
      UserError: for a name that is none.
    """
    for name in config.metric_weights or {}:
        if name not in schema.metrics:
            text = unknown("metric", name, schema.metrics)
            raise UserError(f"metric_weights has the {text}")


def check_rows(connection: Any, schema: Schema, config: TimelineConfig) -> None:
    """Check the tables of rows and episodes.

    Raises:
      UserError: with the number of faulty rows and where three of them are.
    """
    faults = {
        "no mdp_id or no sequence_number; give every row both": (
            "r.mdp_id IS NULL OR r.sequence_number IS NULL"
        ),
        "an end marker, terminated or truncated before the last row of their episode; "
        "only its last row may end an episode": (
            "(r.is_end AND (r.sequence_number <= e.last OR e.markers > 1)) OR (NOT "
            "r.is_end AND r.sequence_number < e.last AND (r.terminated OR r.truncated))"
        ),
        "a reward that is missing or not finite; correct the log, or pass a "
        "custom_reward": "NOT r.is_end AND coalesce(NOT isfinite(r.reward), true)",
    }
    if schema.mode == "discrete":
        known = f"list_contains({literals(schema.actions)}, r.action)"
        faults[
            f"an action that is none of {', '.join(schema.actions)}; correct the log, "
            "or name all actions in the schema"
        ] = f"NOT r.is_end AND NOT {known}"
    joined = f"FROM {ROWS} r LEFT JOIN {EPISODES} e ON r.mdp_id = e.mdp_id"
    counts = ", ".join(f"count(*) FILTER (WHERE {x})" for x in faults.values())
    found = connection.execute(f"SELECT {counts} {joined}").fetchone()
    for count, (text, condition) in zip(found, faults.items(), strict=True):
        if count:
            _refuse(connection, count, text, f"{joined} WHERE {condition}")
    if config.on_duplicate == "error":
        _check_unique(connection)


def _check_unique(connection: Any) -> None:
    keys = f"""SELECT mdp_id, sequence_number FROM {ROWS}
      GROUP BY ALL HAVING count(*) > 1"""
    (count,) = connection.execute(f"SELECT count(*) FROM ({keys})").fetchone()
    if count:
        where = f"FROM {ROWS} r SEMI JOIN ({keys}) USING (mdp_id, sequence_number)"
        text = (
            "the mdp_id and sequence_number of another row; correct the log, or pass "
            "on_duplicate=first or last"
        )
        (count,) = connection.execute(f"SELECT count(*) {where}").fetchone()
        _refuse(connection, count, text, where)


def _refuse(connection: Any, count: int, text: str, where: str) -> None:
    rows = connection.execute(
        f'SELECT r.file, r."row", r.mdp_id, r.sequence_number {where} '
        'ORDER BY r.file, r."row" LIMIT 3'
    ).fetchall()
    places = "; ".join(
        f"{file}, row {row} (mdp_id {mdp_id}, sequence_number {number})"
        for file, row, mdp_id, number in rows
    )
    have = "row has" if count == 1 else "rows have"
    what, _, advice = text.partition("; ")
    raise UserError(f"{count:,} {have} {what}: {places}; {advice}")


def check_samples(connection: Any, query: str) -> None:
    """Run the user's query on the samples that are about to be published.

    Args:
      connection: DuckDB connection with the views of input and output.
      query: SQL text in which ``{input}`` and ``{output}`` stand for them.

    Raises:
      UserError: unless the result is one row in which everything is true.
    """
    import duckdb

    for name, view in _PLACEHOLDERS.items():
        query = query.replace(name, view)
    try:
        found = connection.execute(query).fetchall()
    except duckdb.Error as error:
        raise UserError(
            f"validation_sql cannot be run: {first_line(error)}; nothing is published"
        ) from None
    if len(found) != 1 or not all(cell is True for cell in found[0]):
        shown = ", ".join(map(str, found[:3])) or "no row"
        raise UserError(
            f"validation_sql returned {shown}; expected one row in which all is true. "
            "Nothing is published"
        )
