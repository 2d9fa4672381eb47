"""Files, tables and data frames with samples, as SQL that DuckDB reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from tfagents_batch.errors import UserError
from tfagents_batch.offline.engines import spark_frames
from tfagents_batch.offline.reading import files
from tfagents_batch.offline.sql import identifier, literals


def origin(
    connection: duckdb.DuckDBPyConnection, data: Any, folder: Path
) -> tuple[str, dict[str, Any]]:
    """Return SQL of samples, and their columns with their types.

    Args:
      connection: connection that reads them.
      data: see ``partition.write``.
      folder: temporary folder for the files of a DataFrame.

    Raises:
      UserError: if there are no files, or files of two kinds.
    """
    if spark_frames.is_frame(data):
        data = [str(x) for x in spark_frames.write(data, folder, "samples-")]
    found = files.find(data)
    if found is None:
        connection.register("given", data)
        text = "given"
    else:
        text = _of_files(connection, found)
    relation = connection.sql(f"FROM {text}")
    return text, dict(zip(relation.columns, relation.types, strict=True))


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
    columns = ", ".join(f"{identifier(x)}: 'JSON'" for (x,) in names)
    return f"read_json({paths}, format='newline_delimited', columns={{{columns}}})"
