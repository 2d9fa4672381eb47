"""Logged rows for tests of the timeline, from Python dictionaries."""

import contextlib
import dataclasses

import duckdb

from tfagents_batch.offline import timeline
from tfagents_batch.offline.schema import FEATURES, Schema, types
from tfagents_batch.offline.timeline_config import TimelineConfig


def sql(value, kind):
    """Return a value as an SQL expression of a type."""
    if value is None:
        return f"NULL::{kind}"
    if kind.endswith("[]"):
        items = ", ".join(sql(item, kind[:-2]) for item in value)
        return f"[{items}]::{kind}"
    if kind.startswith("MAP"):
        keys = ", ".join(repr(key) for key in value)
        values = ", ".join(f"{float(x)!r}::DOUBLE" for x in value.values())
        return f"MAP([{keys}], [{values}])::{kind}" if value else f"MAP {{}}::{kind}"
    return f"'{value}'::{kind}"


@dataclasses.dataclass
class Rows:
    """Stand-in for ``reader.Rows``."""

    connection: duckdb.DuckDBPyConnection
    mode: str
    view: str = "logged"
    notices: tuple = ()

    def check_unchanged(self):
        pass


@contextlib.contextmanager
def open_rows(found, mode="discrete", extra=None):
    """Yield rows of dictionaries; ``extra`` has the types of further columns."""
    kinds = dict(types(mode)) | (extra or {})
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.execute("SET enable_progress_bar_print = false")
        columns = ", ".join(f'"{name}" {kind}' for name, kind in kinds.items())
        connection.execute(f'CREATE TABLE logged ({columns}, file VARCHAR, "row" BIGINT)')
        for number, row in enumerate(found):
            assert set(row) <= set(kinds), row
            values = ", ".join(sql(row.get(x), kind) for x, kind in kinds.items())
            connection.execute(f"INSERT INTO logged VALUES ({values}, 'log', {number})")
        yield Rows(connection, mode)


def build(found, output, mode="discrete", schema=None, extra=None, **settings):
    """Run the timeline on dictionaries; return its summary and the samples in order."""
    schema = schema or schema_of(found, mode, tuple(extra or ()))
    settings = {"gamma": 0.5} | settings
    with open_rows(found, mode, extra) as rows:
        config = TimelineConfig(**settings)
        summary = timeline.build(rows, schema, config, output)
    return summary, samples(summary.folder)


def samples(folder):
    """Return the samples of a partition as dictionaries, in order."""
    with duckdb.connect() as connection:
        query = connection.execute(
            f"SELECT * FROM read_parquet('{folder}/part-*.parquet', "
            "hive_partitioning=false) ORDER BY mdp_id, sequence_number"
        )
        names = [column[0] for column in query.description]
        return [dict(zip(names, row, strict=True)) for row in query.fetchall()]


def schema_of(found, mode="discrete", extra_columns=()):
    """Return the schema of dictionaries."""

    def keys(name):
        return tuple(sorted({key for row in found for key in row.get(name) or ()}))

    actions = set()
    if mode == "discrete":
        actions = {row["action"] for row in found} - {""}
        actions |= {x for row in found for x in row.get("possible_actions") or ()}
    return Schema(
        mode,
        tuple(sorted(actions)),
        keys("state_features"),
        keys("action") if mode != "discrete" else (),
        keys("metrics"),
        extra_columns,
    )
