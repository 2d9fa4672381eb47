"""Logged rows for tests of the timeline, from Python dictionaries."""

import contextlib
import pathlib
import tempfile

import duckdb

from tfagents_batch.offline import reader, timeline
from tfagents_batch.offline.timeline_config import TimelineConfig

_spark = []  # session in which ``build`` runs; empty for DuckDB


@contextlib.contextmanager
def in_spark(session):
    """Let ``build`` run the timeline in a session of Spark."""
    _spark.append(session)
    try:
        yield
    finally:
        _spark.remove(session)


def build(found, output, mode="discrete", schema=None, extra=(), **settings):
    """Run the timeline on dictionaries; return its summary and the samples in order."""
    config = TimelineConfig(**{"gamma": 0.5} | settings)
    with reader.open_rows(found, mode, extra_columns=extra) as rows:
        schema = schema or rows.find_schema()
        with _opened(rows) as opened:
            summary = timeline.build(opened, schema, config, output)
    return summary, samples(summary.folder)


@contextlib.contextmanager
def _opened(rows):
    """Yield rows in the engine: those of DuckDB, or the same in Spark."""
    if not _spark:
        yield rows
        return
    from tfagents_batch.offline.reading import spark_rows

    with tempfile.TemporaryDirectory() as folder:
        path = write_parquet(rows, pathlib.Path(folder, "rows.parquet"))
        extra = rows.extra_columns
        with spark_rows.open_rows(
            _spark[-1], path, rows.mode, extra_columns=extra
        ) as opened:
            yield opened


def write_parquet(rows, path):
    """Write open rows to a Parquet file, and return its path."""
    path.parent.mkdir(exist_ok=True)
    selected = 'SELECT * EXCLUDE (file, "row", unread) FROM rows'
    rows.connection.execute(f"COPY ({selected}) TO '{path}'")
    return path


def samples(folder):
    """Return the samples of a partition as dictionaries, in order."""
    with duckdb.connect() as connection:
        query = connection.execute(
            f"SELECT * FROM read_parquet('{folder}/part-*.parquet', "
            "hive_partitioning=false) ORDER BY mdp_id, sequence_number"
        )
        names = [column[0] for column in query.description]
        return [dict(zip(names, row, strict=True)) for row in query.fetchall()]
