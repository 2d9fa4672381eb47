"""Samples that another program made, as a partition of a table.

Horizon and ReAgent write one row for each sample: the decision with its next row, in
maps as in logged rows, in arrays for several rewards (``arrays``), or as dense lists
with flags of presence (``lists``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from tfagents_batch.errors import SaveError, UserError, first_line
from tfagents_batch.offline import interruptible, manifest, publish
from tfagents_batch.offline.engines import contents
from tfagents_batch.offline.engines.dialect import DUCKDB
from tfagents_batch.offline.engines.scratch import Scratch
from tfagents_batch.offline.samples import arrays, columns, lists, source
from tfagents_batch.offline.samples.query import query
from tfagents_batch.offline.schema import Mode, Schema
from tfagents_batch.offline.sql import literal, literals
from tfagents_batch.offline.timeline_config import TimelineConfig, checked

_GIVEN, _TYPED, _SAMPLES = "samples_given", "samples_typed", "samples"


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
        """Create the table of samples."""
        origin, given = source.origin(self._connection, data, folder)
        columns.check(given)
        self._view(_GIVEN, f"SELECT * FROM {origin}")
        several = self._has_arrays(given["reward"])
        typed = columns.typed(given, self._mode, several)
        self._view(_TYPED, f"SELECT {typed} FROM {_GIVEN}")
        value = {name: name for name in columns.types(given, self._mode)}
        if several:
            names = self._metric_names() if "metrics" in value else ()
            value |= arrays.reduced(value, self._config, names)
        if self._mode == "discrete" and lists.POSSIBLE in value:
            self._actions = self._actions or self._numbers()
            value |= lists.action_names(value, self._actions)
        text = query(_TYPED, value, self._mode, self._config, self._actions)
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
        if self._mode != "discrete" or not self._actions:
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

    def _has_arrays(self, reward: Any) -> bool:
        first = None
        if str(reward) == "JSON":
            found = self._fetch(f"SELECT json_type(reward) FROM {_GIVEN} LIMIT 1")
            first = found[0][0] if found else None
        return arrays.are_given(reward, first)

    def _metric_names(self) -> tuple[str, ...]:
        found = self._fetch(arrays.metric_names(_TYPED))
        return tuple(sorted(x for (x,) in found if x is not None))

    def _numbers(self) -> tuple[str, ...]:
        """Return the numbers of actions as names."""
        ((size,),) = self._fetch(f"SELECT max(len({lists.POSSIBLE})) FROM {_TYPED}")
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
        ((total, *found),) = self._fetch(f"SELECT count(*), {counts} FROM {_SAMPLES}")
        if not total:
            raise UserError("there are no samples; expected at least one")
        for count, text in zip(found, faults, strict=True):
            if count:
                raise UserError(
                    f"{count:,} of {total:,} samples have {text}; correct them, or "
                    "make samples from the logged rows"
                )

    def _view(self, name: str, text: str) -> None:
        self._connection.execute(f"CREATE OR REPLACE VIEW {name} AS {text}")

    def _fetch(self, text: str) -> list[tuple]:
        return self._connection.execute(text).fetchall()
