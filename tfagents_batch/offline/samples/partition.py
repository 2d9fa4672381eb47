"""Samples that another program made, as a partition of a table.

Horizon and ReAgent write one row for each sample: the decision with its next row, in
maps as in logged rows, in arrays for several rewards, or as dense lists with flags of
presence.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from pathlib import Path
from typing import Any

import duckdb

from tfagents_batch.errors import UserError
from tfagents_batch.offline import interruptible, manifest, publish
from tfagents_batch.offline.engines import contents
from tfagents_batch.offline.engines.dialect import DUCKDB
from tfagents_batch.offline.engines.duckdb_engine import DuckDBEngine
from tfagents_batch.offline.engines.scratch import Scratch
from tfagents_batch.offline.reading import files
from tfagents_batch.offline.samples import columns
from tfagents_batch.offline.samples.query import action_names, query, reduced
from tfagents_batch.offline.schema import Mode, Schema
from tfagents_batch.offline.sql import identifier, literals
from tfagents_batch.offline.timeline_config import TimelineConfig, checked

_GIVEN, _TYPED, _SAMPLES = "samples_given", "samples_typed", "samples"
_ROW_GROUP = 65536  # rows


def write(
    data: Any,
    output: str | Path,
    config: TimelineConfig,
    mode: Mode = "discrete",
    actions: tuple[str, ...] = (),
) -> tuple[Path, int]:
    """Write samples as a partition of a table.

    Args:
      data: path, glob or folder of JSON lines or Parquet, a list of them, or a table of
        Arrow.
      output: folder of the table. The partition is ``end_ds``, or the last ``ds``.
      config: ``gamma``, ``discount`` and ``time_unit`` reduce arrays and give the
        factor of the next value; the shares split episodes where samples do not say it.
      mode: kind of actions, see ``Schema``.
      actions: names of all actions in their order; empty for those that occur.

    Returns:
      The folder of the partition, and the number of samples.

    Raises:
      UserError: if a column is missing or has no reading, for an unknown action, or if
        files in the folder would be lost, see ``timeline.build``.
      SaveError: if a file cannot be written.
    """
    config = checked(config)
    files.check_outside(Path(output), files.find(data) or ())
    with (
        contextlib.closing(Scratch()) as scratch,
        duckdb.connect(config={"temp_directory": scratch.name}) as connection,
    ):
        engine = DuckDBEngine(connection)
        with engine.failing("samples cannot be read"):
            work = _Work(engine, config, mode, actions)
            interruptible.run(connection, lambda: work.read(connection, data))
            schema, facts = work.schema(), work.facts()
            end = config.end_ds or facts["max_ds"] or "samples"
            most = max(int(facts.pop("most_steps")), 1)
            found = dataclasses.replace(config, form="rows", end_ds=end, n_step=most)
            target = publish.partition(Path(output), end)
            manifest.check_target(target)
            manifest.check_change(Path(output), schema, found)
            with publish.staging(target, manifest.check_target) as staged:
                interruptible.run(connection, lambda: work.write(staged))
                manifest.write(staged, schema, found, {"ds": end, **facts})
    return target, facts["rows"]


class _Work:
    """The steps of one import, on views of an engine."""

    def __init__(
        self,
        engine: DuckDBEngine,
        config: TimelineConfig,
        mode: Mode,
        actions: tuple[str, ...],
    ):
        self._engine, self._config = engine, config
        self._mode, self._actions = mode, actions

    def read(self, connection: duckdb.DuckDBPyConnection, data: Any) -> None:
        """Create the table of samples."""
        given = _open(connection, data)
        columns.check(given)
        several = self._has_arrays(given["reward"])
        typed = columns.typed(given, self._mode, several)
        self._engine.view(_TYPED, f"SELECT {typed} FROM {_GIVEN}")
        value = {name: name for name in columns.types(given, self._mode)}
        if several:
            names = self._metric_names() if "metrics" in value else ()
            value |= reduced(value, self._config, names)
        if self._mode == "discrete" and columns.POSSIBLE in value:
            self._actions = self._actions or self._numbers()
            value |= action_names(value, self._actions)
        text = query(_TYPED, value, self._mode, self._config, self._actions)
        self._engine.table(_SAMPLES, text)
        self._check()

    def schema(self) -> Schema:
        """Return the schema of the samples."""
        final = "next_state_features AS final_state_features"
        if self._mode != "continuous":
            final += ", possible_next_actions AS final_possible_actions"
        self._engine.view("ends", f"SELECT *, {final} FROM {_SAMPLES}")
        found = self._engine.fetch(contents.query("ends", self._mode, DUCKDB))
        schema = contents.schema_of(contents.sorted_contents(found), self._mode, ())
        if self._mode != "discrete" or not self._actions:
            return schema
        if unknown := sorted(set(schema.actions) - set(self._actions)):
            raise UserError(
                f"the samples have the actions {', '.join(unknown)}, which are none of "
                f"{', '.join(self._actions)}; name all actions in their order"
            )
        return dataclasses.replace(schema, actions=self._actions)

    def facts(self) -> dict[str, Any]:
        """Return entries of the manifest, and ``most_steps`` of a sample."""
        ((rows, episodes, ends, low, high, most),) = self._engine.fetch(
            "SELECT count(*), count(DISTINCT mdp_id), count(DISTINCT mdp_id) "
            "FILTER (WHERE NOT not_terminal), min(ds), max(ds), max(step) "
            f"FROM {_SAMPLES}"
        )
        return {
            "rows": rows,
            "episodes": episodes,
            "terminals": ends,
            "rows_read": rows,
            "dropped": {},
            "min_ds": low,
            "max_ds": high,
            "engine": self._engine.version,
            "most_steps": most,
        }

    def write(self, folder: Path) -> None:
        """Write the samples into a folder."""
        order = DUCKDB.shuffled("mdp_key", "sequence_number")
        rows = f"SELECT * EXCLUDE (ds) FROM {_SAMPLES} {order}"
        prefix = f"part-{secrets.token_hex(4)}-"
        self._engine.write(rows, folder, prefix, _ROW_GROUP)

    # ---- parts of ``read``

    def _has_arrays(self, reward: Any) -> bool:
        """Return whether samples have lists of rewards."""
        if str(reward) != "JSON":
            return reward.id == "list"
        first = f"SELECT json_type(reward) FROM {_GIVEN} LIMIT 1"
        return self._engine.fetch(first) == [("ARRAY",)]

    def _metric_names(self) -> tuple[str, ...]:
        keys = "flatten(list_transform(metrics, lambda one: map_keys(one)))"
        found = self._engine.fetch(f"SELECT DISTINCT unnest({keys}) FROM {_TYPED}")
        return tuple(sorted(x for (x,) in found if x is not None))

    def _numbers(self) -> tuple[str, ...]:
        """Return the numbers of actions as names."""
        most = f"SELECT max(len({columns.POSSIBLE})) FROM {_TYPED}"
        ((size,),) = self._engine.fetch(most)
        return tuple(map(str, range(size or 0)))

    def _check(self) -> None:
        """Check that samples have what training needs."""
        faults = {
            "no mdp_id or sequence_number": (
                "mdp_id IS NULL OR sequence_number IS NULL"
            ),
            "no action": '"action" IS NULL',
            "a reward that is missing or not finite": (
                "NOT coalesce(isfinite(reward), false)"
            ),
        }
        if self._mode == "discrete" and self._actions:
            known = literals([*self._actions, ""])
            faults["an unknown next action"] = (
                f"NOT list_contains({known}, next_action)"
            )
        counts = ", ".join(f"count_if({x})" for x in faults.values())
        found = self._engine.fetch(f"SELECT count(*), {counts} FROM {_SAMPLES}")
        ((total, *found),) = found
        if not total:
            raise UserError("there are no samples; expected at least one")
        for count, text in zip(found, faults, strict=True):
            if count:
                raise UserError(
                    f"{count:,} of {total:,} samples have {text}; correct them, or "
                    "make samples from the logged rows"
                )


def _open(connection: duckdb.DuckDBPyConnection, data: Any) -> dict[str, Any]:
    """Create the view of the given samples; return its columns with their types."""
    found = files.find(data)
    if found is None:
        connection.register("given", data)
        origin = "given"
    else:
        origin = _of_files(connection, found)
    connection.execute(f"CREATE VIEW {_GIVEN} AS SELECT * FROM {origin}")
    relation = connection.table(_GIVEN)
    return dict(zip(relation.columns, relation.types, strict=True))


def _of_files(connection: duckdb.DuckDBPyConnection, found: list[Path]) -> str:
    paths = literals(map(str, found))
    lines = [x for x in found if files.kind(x) in files.JSON]
    if not lines:
        return f"read_parquet({paths}, union_by_name=true, hive_types_autocast=false)"
    if len(lines) < len(found):
        raise UserError(
            "the samples are in JSON and Parquet files; expected files of one kind"
        )
    # Columns stay JSON: DuckDB would guess a struct where the schema has a map.
    keys = f"unnest(json_keys(json)) FROM read_ndjson_objects({paths})"
    names = connection.execute(f"SELECT DISTINCT {keys}").fetchall()
    listed = ", ".join(f"{identifier(x)}: 'JSON'" for (x,) in names)
    return f"read_json({paths}, format='newline_delimited', columns={{{listed}}})"
