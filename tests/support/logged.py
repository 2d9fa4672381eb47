"""Logged rows for tests of the timeline, from Python dictionaries."""

import duckdb

from tfagents_batch.offline import reader, timeline
from tfagents_batch.offline.timeline_config import TimelineConfig


def build(found, output, mode="discrete", schema=None, extra=(), **settings):
    """Run the timeline on dictionaries; return its summary and the samples in order."""
    config = TimelineConfig(**{"gamma": 0.5} | settings)
    with reader.open_rows(found, mode, extra_columns=extra) as rows:
        schema = schema or rows.find_schema()
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
