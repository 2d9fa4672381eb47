"""Odd columns are read, or are errors; nothing vanishes."""

import pyarrow.parquet
import pytest

from tests.offline import made
from tests.offline.reading import odd_columns
from tests.offline.reading.odd_columns import COLUMNS, LINES, REFUSED
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.validator import validate


def read(data, column):
    """Return a column, in order, or REFUSED if there is an error about it."""
    about = {"wrong_type", "feature_key"}
    about |= {f"repeated_key_in_{column}", f"number_in_{column}"}
    with open_rows(data) as rows:
        if {each.rule for each in validate(rows).errors} & about:
            return REFUSED
        query = f'SELECT "{column}" FROM {rows.view} ORDER BY row'
        return [value for (value,) in rows.fetch(query)]


@pytest.mark.parametrize("name", COLUMNS)
def test_an_odd_column_of_parquet_is_read_or_refused(name, tmp_path):
    column, values, expected = COLUMNS[name]
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(odd_columns.table(column, values), path)
    assert read(path, column) == expected


@pytest.mark.parametrize("name", LINES)
def test_an_odd_value_of_json_is_read_or_refused(name, tmp_path):
    column, values, expected = LINES[name]
    path = made.write(tmp_path / "rows.jsonl", odd_columns.lines(column, values))
    assert read(path, column) == expected
