"""Samples that another program made, as a partition of a table.

Horizon and ReAgent write one row for each sample: the decision with its next row, in
maps as in logged rows, in arrays for several rewards, or as dense lists with flags of
presence (ReAgent's ``query_data``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from tfagents_batch.errors import SaveError, UserError, first_line
from tfagents_batch.offline import interruptible, manifest, publish
from tfagents_batch.offline.engines import contents, spark_frames
from tfagents_batch.offline.engines.dialect import DUCKDB
from tfagents_batch.offline.engines.scratch import Scratch
from tfagents_batch.offline.reading import files
from tfagents_batch.offline.reading.conversion import converted
from tfagents_batch.offline.schema import ACTION, FEATURES, Mode, Schema
from tfagents_batch.offline.sql import identifier, literal, literals
from tfagents_batch.offline.timeline_config import TimelineConfig, checked

_METRICS = "MAP(VARCHAR, DOUBLE)"
_PRESENCE, _MASK = "_presence", "_mask"
# Columns of samples with their types, and those that have n entries in arrays.
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
    "metrics": _METRICS,
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
_OF_NEXT = "next_state_features", "next_action", "possible_next_actions", "time_diff"
_SEVERAL = ("reward", "metrics", *_OF_NEXT)
NEEDED = "mdp_id", "state_features", "action", "reward", "next_state_features"
_GIVEN, _TYPED, _SAMPLES = "samples_given", "samples_typed", "samples"


def has_samples(columns: Any) -> bool:
    """Return whether columns are those of samples, not of logged rows."""
    return "next_state_features" in columns


def write(
    data: Any,
    output: str | Path,
    config: TimelineConfig,
    mode: Mode = "discrete",
    actions: tuple[str, ...] = (),
) -> tuple[Path, int]:
    """Write samples as a partition of a table.

    Args:
      data: path, glob or folder of JSON lines or Parquet, a list of them, a table of
        Arrow, or a DataFrame of Spark.
      output: folder of the table. The partition is ``end_ds``, or the last ``ds``.
      config: ``gamma``, ``discount`` and ``time_unit`` reduce arrays and give the
        factor of the next value; the shares split episodes where samples do not say it.
      mode: kind of actions, see ``Schema``.
      actions: names of all actions in their order; empty for those that occur.

    Returns:
      The folder of the partition, and the number of samples.

    Raises:
      UserError: if a column is missing or has no reading, or for an unknown action.
      SaveError: if a file cannot be written.
    """
    config, scratch = checked(config), Scratch()
    with (
        _cleaned(scratch),
        duckdb.connect(config={"temp_directory": scratch.name}) as connection,
        _reading(),
    ):
        work = _Work(connection, config, mode, actions)
        interruptible.run(connection, lambda: work.read(data, Path(scratch.name)))
        schema = work.schema()
        found = dataclasses.replace(config, form="rows", end_ds=work.end_ds())
        found = dataclasses.replace(found, n_step=max(work.most_steps(), 1))
        target = publish.partition(Path(output), found.end_ds or "")
        manifest.check_change(Path(output), schema, found)
        try:
            with publish.staging(target) as staged:
                interruptible.run(connection, lambda: work.copy(staged))
                facts = work.facts(found)
                manifest.write(staged, schema, found, facts)
        except (OSError, duckdb.IOException) as error:
            raise SaveError(f"{output} cannot be written: {error}") from error
    return target, facts["rows"]


@contextlib.contextmanager
def _cleaned(scratch: Scratch) -> Iterator[None]:
    try:
        yield
    finally:
        scratch.cleanup()


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        raise UserError(f"samples cannot be read: {first_line(error)}") from error


class _Work:
    """The steps of one import, on views of a connection."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        config: TimelineConfig,
        mode: Mode,
        actions: tuple[str, ...],
    ):
        self._connection, self._config = connection, config
        self._mode, self._actions = mode, actions

    def read(self, data: Any, folder: Path) -> None:
        """Create the view of samples."""
        origin, columns = self._origin(data, folder)
        missing = [x for x in NEEDED if x not in columns]
        if missing:
            raise UserError(
                f"the samples lack {', '.join(missing)}; expected the columns "
                f"{', '.join(NEEDED)}"
            )
        self._view(_GIVEN, f"SELECT * FROM {origin}")
        several = self._has_arrays(columns)
        typed = self._typed(columns, several)
        self._view(_TYPED, f"SELECT {typed} FROM {_GIVEN}")
        names = self._metric_names(columns) if several else ()
        text = self._sample(set(columns), several, names)
        self._connection.execute(f"CREATE TABLE {_SAMPLES} AS {text}")
        self._check()

    def schema(self) -> Schema:
        """Return the schema of the samples."""
        final = "next_state_features AS final_state_features"
        if self._mode != "continuous":
            final += ", possible_next_actions AS final_possible_actions"
        self._view("ends", f"SELECT *, {final} FROM {_SAMPLES}")
        found = self._fetch(contents.query("ends", self._mode, DUCKDB))
        schema = contents.schema_of(contents.sorted_contents(found), self._mode, ())
        if self._mode != "discrete":
            return schema
        if not self._actions:
            return schema
        if unknown := sorted(set(schema.actions) - set(self._actions)):
            raise UserError(
                f"the samples have the actions {', '.join(unknown)}, which are none of "
                f"{', '.join(self._actions)}; name all actions in their order"
            )
        return dataclasses.replace(schema, actions=self._actions)

    def end_ds(self) -> str:
        """Return the name of the partition."""
        ((last,),) = self._fetch(f"SELECT max(ds) FROM {_SAMPLES}")
        return self._config.end_ds or last or "samples"

    def most_steps(self) -> int:
        """Return the largest number of rewards in a sample."""
        ((most,),) = self._fetch(f"SELECT max(step) FROM {_SAMPLES}")
        return int(most)

    def copy(self, folder: Path) -> None:
        """Write the samples into a folder."""
        order = DUCKDB.shuffled("mdp_key", "sequence_number")
        name = f"part-{secrets.token_hex(4)}-0.parquet"
        self._connection.execute(
            f"COPY (SELECT * EXCLUDE (ds) FROM {_SAMPLES} {order}) TO "
            f"{literal(str(folder / name))} (FORMAT parquet, ROW_GROUP_SIZE 65536)"
        )

    def facts(self, config: TimelineConfig) -> dict[str, Any]:
        """Return entries of the manifest."""
        ((rows, episodes, ends, low, high),) = self._fetch(
            "SELECT count(*), count(DISTINCT mdp_id), "
            "count(DISTINCT mdp_id) FILTER (WHERE NOT not_terminal), min(ds), max(ds) "
            f"FROM {_SAMPLES}"
        )
        found = {"ds": config.end_ds, "rows": rows, "episodes": episodes}
        found |= {"terminals": ends, "rows_read": rows, "dropped": {}}
        ((version,),) = self._fetch("SELECT version()")
        return found | {"min_ds": low, "max_ds": high, "engine": f"duckdb {version}"}

    # ---- parts of ``read``

    def _origin(self, data: Any, folder: Path) -> tuple[str, dict[str, Any]]:
        """Return SQL of the samples, and their columns with their types."""
        if spark_frames.is_frame(data):
            data = [str(x) for x in spark_frames.write(data, folder, "samples-")]
        found = files.find(data)
        if found is None:
            self._connection.register("given", data)
            found, origin = [], "given"
        lines = [x for x in found if files.kind(x) in files.JSON]
        if lines and len(lines) < len(found):
            raise UserError(
                "the samples are in JSON and Parquet files; expected files of one kind"
            )
        if lines:
            keys = f"unnest(json_keys(json)) FROM read_ndjson_objects({_paths(lines)})"
            names = [x for (x,) in self._fetch(f"SELECT DISTINCT {keys}")]
            columns = ", ".join(f"{identifier(x)}: 'JSON'" for x in names)
            kind = "format='newline_delimited'"
            origin = f"read_json({_paths(lines)}, {kind}, columns={{{columns}}})"
        elif found:
            origin = (
                f"read_parquet({_paths(found)}, union_by_name=true, "
                "hive_types_autocast=false)"
            )
        relation = self._connection.sql(f"FROM {origin}")
        return origin, dict(zip(relation.columns, relation.types, strict=True))

    def _has_arrays(self, columns: Mapping[str, Any]) -> bool:
        """Return whether samples have lists of rewards."""
        kind = columns["reward"]
        if str(kind) != "JSON":
            return kind.id == "list"
        found = self._fetch(f"SELECT json_type(reward) FROM {_GIVEN} LIMIT 1")
        return found == [("ARRAY",)]

    def _typed(self, columns: Mapping[str, Any], several: bool) -> str:
        """Return expressions of all given columns in their types."""
        selected = []
        for name, kind in self._types(columns).items():
            if several and name in _SEVERAL:
                kind += "[]"
            flags, value = name + _PRESENCE, identifier(name)
            present = identifier(flags) if flags in columns else ""
            source = columns[name]
            if str(source) == "JSON" and (kind.startswith("MAP") or "[]" in kind):
                source, value = duckdb.type("VARCHAR"), f"{value}::VARCHAR"
            found = converted(value, source, kind, name, present)
            selected.append(
                f"{found} AS {value if value == name else identifier(name)}"
            )
        return ", ".join(selected)

    def _types(self, columns: Mapping[str, Any]) -> dict[str, str]:
        """Return the types of the columns that are there and have a meaning."""
        found = {
            name: kind.format(action=ACTION[self._mode])
            for name, kind in _TYPES.items()
            if name in columns
        }
        if self._mode == "continuous":
            found = {k: x for k, x in found.items() if "possible" not in k}
        return found

    def _metric_names(self, columns: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names in arrays of metrics."""
        if "metrics" not in columns:
            return ()
        keys = "flatten(list_transform(metrics, lambda one: map_keys(one)))"
        found = self._fetch(f"SELECT DISTINCT unnest({keys}) FROM {_TYPED}")
        return tuple(sorted(x for (x,) in found if x is not None))

    def _sample(
        self, columns: set[str], several: bool, metrics: tuple[str, ...]
    ) -> str:
        """Return the query of samples in the form of this package's timeline."""
        last = "[-1]" if several else ""
        value = {name: name for name in self._types(dict.fromkeys(columns))}
        value |= {x: f"{x}{last}" for x in _OF_NEXT if x in value}
        by_time = self._config.discount == "time"
        if several:
            steps = "len(reward)"
            exponent = "i - 1"
            if by_time:
                exponent = "CASE WHEN i = 1 THEN 0 ELSE time_diff[i - 1] END"
            factor = self._power(exponent)
            value["reward"] = DUCKDB.sum(steps, "i", f"{factor} * reward[i]")
            sums = [
                DUCKDB.sum(
                    steps, "i", f"{factor} * coalesce(metrics[i][{literal(x)}], 0)"
                )
                for x in metrics
            ]
            value["metrics"] = DUCKDB.map(map(literal, metrics), sums, _METRICS)
            value.setdefault("step", steps)
        if self._mode == "discrete":
            value |= self._names(value)
        order = "PARTITION BY mdp_id ORDER BY sequence_number"
        sequence = value.get("sequence_number", value.get("sequence_number_ordinal"))
        if sequence is None:
            raise UserError(
                "the samples lack sequence_number; expected it, or "
                "sequence_number_ordinal"
            )
        value.setdefault("sequence_number", sequence)
        value.setdefault("sequence_number_ordinal", f"row_number() OVER ({order})")
        first = "min(sequence_number) OVER (PARTITION BY mdp_id)"
        value.setdefault("time_since_first", f"{sequence} - {first}")
        value["time_diff"] = f"coalesce({value.get('time_diff', '1')}, 0)"
        value.setdefault("step", "1")
        exponent = value["time_diff"] if by_time else value["step"]
        value.setdefault("discount", self._power(exponent))
        value["metrics"] = (
            f"coalesce({value.get('metrics', 'NULL')}, MAP {{}}::{_METRICS})"
        )
        no_action = "''" if self._mode == "discrete" else f"MAP {{}}::{FEATURES}"
        nexts = f"coalesce({value.get('next_action', 'NULL')}, {no_action})"
        value["next_action"] = nexts
        value.setdefault("not_terminal", self._not_terminal(value))
        probability = value.get("action_probability", value.get("propensity", "NULL"))
        value["action_probability"] = f"{probability}::DOUBLE"
        salted = f"concat({literal(self._config.salt)}, mdp_id)"
        value.setdefault("mdp_key", DUCKDB.key(salted))
        share = f"{value['mdp_key']} / {float(2**60)!r}"
        value.setdefault(
            "split",
            f"CASE WHEN {share} < {self._config.train_share!r} THEN 'train' "
            f"WHEN {share} >= {1 - self._config.eval_share!r} THEN 'eval' END",
        )
        value.setdefault("ds", "NULL::VARCHAR")
        empty = f"MAP {{}}::{FEATURES}"
        for name in ("state_features", "next_state_features"):
            value[name] = f"coalesce({value[name]}, {empty})"
        names = ["ds", "mdp_id", "mdp_key", "split", "state_features", "action"]
        names += ["action_probability", "reward", "metrics", "next_state_features"]
        names += ["next_action", "sequence_number", "sequence_number_ordinal"]
        names += ["time_diff", "time_since_first", "step", "not_terminal", "discount"]
        if self._mode == "continuous":
            value.setdefault("action_log_density", "NULL::DOUBLE")
            names.append("action_log_density")
        else:
            choices = f"[]::{ACTION[self._mode]}[]"
            nothing = self._all(choices)
            for name, other in (
                ("possible_actions", nothing),
                (
                    "possible_next_actions",
                    f"CASE WHEN {value['not_terminal']} THEN {nothing} "
                    f"ELSE {choices} END",
                ),
            ):
                value[name] = f"coalesce({value.get(name, 'NULL')}, {other})"
                names.append(name)
        listed = ", ".join(f"{value[x]} AS {identifier(x)}" for x in names)
        return f"SELECT * FROM (SELECT {listed} FROM {_TYPED}) WHERE split IS NOT NULL"

    def _names(self, value: Mapping[str, str]) -> dict[str, str]:
        """Return names of actions instead of numbers, where samples are dense."""
        mask = "possible_actions" + _MASK
        if mask not in value:
            return {}
        names = self._actions
        if not names:
            ((size,),) = self._fetch(f"SELECT max(len({mask})) FROM {_TYPED}")
            names = tuple(map(str, range(size or 0)))
        self._actions = names
        listed = literals(names)
        found = {}
        for name in ("action", "next_action"):  # the number after the last is no action
            number = f"TRY_CAST({value[name]} AS INTEGER)"
            found[name] = (
                f"CASE WHEN {number} = {len(names)} THEN '' ELSE "
                f"coalesce({listed}[{number} + 1], {value[name]}) END"
            )
        for name in ("possible_actions", "possible_next_actions"):
            if name + _MASK in value:
                flag = f"{name}{_MASK}[k] = 1"
                numbers = f"list_filter(range(1, {len(names)} + 1), lambda k: {flag})"
                found[name] = f"list_transform({numbers}, lambda k: {listed}[k])"
        return found

    def _not_terminal(self, value: Mapping[str, str]) -> str:
        """Return whether a sample has a next row that counts, as Horizon has it."""
        if self._mode != "continuous" and "possible_next_actions" in value:
            return f"coalesce(len({value['possible_next_actions']}) > 0, false)"
        if self._mode == "discrete":
            return f"{value['next_action']} <> ''"
        return f"cardinality({value['next_action']}) > 0"

    def _all(self, otherwise: str) -> str:
        """Return all actions that are known before, for samples without choices."""
        if self._mode == "discrete" and self._actions:
            return literals(self._actions)
        return otherwise

    def _power(self, exponent: str) -> str:
        if self._config.discount == "time":
            exponent = f"({exponent}) / {float(self._config.time_unit)!r}"
        return f"pow({self._config.gamma!r}, {exponent})"

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
        ((total, *found),) = self._fetch(f"SELECT count(*), {counts} FROM {_SAMPLES}")
        if not total:
            raise UserError("there are no samples; expected at least one")
        for count, text in zip(found, faults, strict=True):
            if count:
                raise UserError(
                    f"{count:,} of {total:,} samples have {text}; correct them, or "
                    "make samples from the logged rows"
                )

    def _view(self, name: str, query: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")

    def _fetch(self, query: str) -> list[tuple]:
        return self._connection.execute(query).fetchall()


def _paths(found: list[Path]) -> str:
    return literals(map(str, found))
