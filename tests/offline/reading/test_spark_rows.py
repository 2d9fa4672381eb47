"""Odd columns in Spark are what DuckDB reads in them, or are errors."""

import pyarrow.parquet
import pytest

from tests.install import extras
from tests.offline import made
from tests.offline.reading import odd_columns
from tests.offline.reading.odd_columns import COLUMNS, LINES, REFUSED
from tfagents_batch.errors import UserError
from tfagents_batch.offline.reading import spark_rows

extras.skip_without("spark")
# PySpark warns about versions of pandas.
pytestmark = pytest.mark.filterwarnings("ignore")


def read(spark, data, column):
    """Return a column, in order, or REFUSED if there is an error."""
    try:
        with (
            spark_rows.open_rows(spark, data) as rows,
            rows.engine.failing("rows cannot be read"),
        ):
            return [
                x for (x,) in rows.engine.fetch(f"SELECT {column} FROM {rows.view}")
            ]
    except UserError:
        return REFUSED


def parquet(folder, name):
    column, values, expected = COLUMNS[name]
    path = folder / "rows.parquet"
    pyarrow.parquet.write_table(odd_columns.table(column, values), path)
    return path, column, expected


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
def test_an_odd_column_is_in_spark_what_it_is_in_duckdb(name, spark, tmp_path):
    path, column, expected = parquet(tmp_path, name)
    assert read(spark, path, column) == expected


@pytest.mark.slow
def test_tables_without_the_flags_of_lines_are_refused_in_spark(spark, tmp_path):
    rows = [{k: x for k, x in row.items() if k != "metrics"} for row in made.episode()]
    table = pyarrow.Table.from_pylist([{**x, "terminated": None} for x in rows])
    pyarrow.parquet.write_table(table.drop(["terminated"]), tmp_path / "a.parquet")
    lines = made.write(tmp_path / "b.jsonl", made.episode(2, "u8")[:1])
    with spark_rows.open_rows(spark, tmp_path):
        pass
    made.write(lines, made.episode(2, "u8"))
    with pytest.raises(UserError, match="terminated, which rows of JSON have"):
        spark_rows.open_rows(spark, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_an_odd_value_of_json_is_in_spark_what_it_is_in_duckdb(name, spark, tmp_path):
    column, values, expected = LINES[name]
    path = made.write(tmp_path / "rows.jsonl", odd_columns.lines(column, values))
    assert read(spark, path, column) == expected


@pytest.mark.slow
def test_files_of_spark_may_have_different_types(spark, tmp_path):
    for name in ("int64 ids", "float ids", "nothing as a map", "structs of metrics"):
        (tmp_path / name).mkdir()
        parquet(tmp_path / name, name)
    made.write(tmp_path / "a.jsonl", odd_columns.lines("mdp_id", ["7.0", "8", "null"]))
    found = read(spark, tmp_path, "mdp_id")
    names = [f"{2**60 + 1}", "-3", "7", "7", "7", "12345678", "0", "8", None]
    assert sorted(map(str, found)) == sorted(map(str, names + ["a", "b", "c"] * 2))


@pytest.mark.slow
def test_the_day_of_a_time_does_not_depend_on_the_time_zone_of_spark(spark, tmp_path):
    path, column, expected = parquet(tmp_path, "times of a zone")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert read(spark, path, column) == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
