"""Rows in memory keep their names, ids and days, or are refused."""

import numpy as np
import pandas
import pytest

from tests.offline import made
from tfagents_batch.errors import UserError
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.writer import to_line


def mdp_ids(data):
    with open_rows(data) as rows:
        found = rows.fetch(f"SELECT mdp_id FROM {rows.view} ORDER BY row")
    return [name for (name,) in found]


@pytest.mark.parametrize("dtype", ["float16", "float32", "Float32", "float[pyarrow]"])
@pytest.mark.parametrize("column", ["mdp_id", "ds", "sequence_number", "action"])
def test_narrow_floats_of_pandas_that_lost_digits_are_no_names(column, dtype):
    large = 2**11 if dtype == "float16" else 20_000_000
    table = pandas.DataFrame([made.row(), made.row(mdp_id="u8")])
    table[column] = pandas.Series([large, large + 0.0]).astype(dtype)
    with pytest.raises(UserError, match=f"{column} is {large}.* in float(16|32), wher"):
        mdp_ids(table)


def test_narrow_floats_of_pandas_that_are_exact_are_names():
    table = pandas.DataFrame([made.row(), made.row(), made.row()])
    table["mdp_id"] = np.array([7, 2**24 - 1, np.nan], np.float32)
    table["reward"] = np.array([1e9, 2e9, 3e9], np.float32)  # a number may be large
    assert mdp_ids(table) == ["7", str(2**24 - 1), None]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("mdp_id", np.float32(2**24 + 1)),
        ("mdp_id", np.float16(2049)),
        ("action", np.float32(2**24 + 1)),
        ("possible_actions", [np.float32(1), np.float32(2**24 + 1)]),
        ("final_possible_actions", np.array([1, 2**24 + 1], np.float32)),
        ("state_features", {np.float32(2**24 + 1): 1.0}),
        ("possible_actions", [{np.float32(-(2**24)): 1.0}]),
        ("state_features", {2.0**53 + 1: 1.0}),
    ],
)
def test_floats_that_lost_digits_are_no_names(column, value):
    with pytest.raises(UserError, match=f"{column}.* in float(16|32|64), where"):
        to_line({column: value})


@pytest.mark.parametrize(
    "row",
    [
        {"state_features": np.array([1e9], np.float32)},
        {"possible_actions": [np.array([1e9], np.float32)]},  # features, not a name
        {"possible_actions": np.array([[1e9]], np.float32)},
        {"reward": np.float32(1e9)},
        {"metrics": {"click": np.float32(1e9)}},
    ],
)
def test_numbers_may_be_large_floats(row):
    assert "1000000000.0" in to_line(row)


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"state_features": {"0": 1.0, 0: 2.0}}, "0"),
        ({"state_features": {7: 1.0, np.float32(7): 1.0, "7": 3.0}}, "7"),
        ({"metrics": {1: 1.0, "1": 2.0}}, "1"),
        ({"possible_actions": [{"3": 1.0, 3.0: 2.0}]}, "3"),
        ({"1": 1.0, 1: 2.0}, "1"),
    ],
)
def test_a_key_in_two_forms_is_refused(row, key):
    with pytest.raises(UserError, match=f"has the key {key} in more than one form"):
        to_line(row)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.datetime64("2026-01-02T03:04:05", "ns"), "2026-01-02 03:04:05"),
        (np.datetime64("2026-01-02T03:04:05.5", "ns"), "2026-01-02 03:04:05.5"),
        (np.datetime64(1, "ns"), "1970-01-01 00:00:00.000000001"),
        (np.datetime64("2026-01-02T03:04:05", "us"), "2026-01-02 03:04:05"),
        (np.datetime64("2026-01-02T03", "h"), "2026-01-02 03:00:00"),
        (np.datetime64("2026-01-02", "D"), "2026-01-02"),
        (np.array("2026-01-02", "datetime64[ns]"), "2026-01-02 00:00:00"),
    ],
)
def test_a_time_of_numpy_is_its_text_in_every_unit(value, text):
    assert to_line({"ds": value}) == f'{{"ds":"{text}"}}'
    assert to_line({"x": [value]}) == f'{{"x":["{text}"]}}'


def test_no_time_is_null():
    assert to_line({"ds": np.datetime64("NaT", "ns")}) == '{"ds":null}'


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
def test_a_duration_of_numpy_is_refused(unit):
    with pytest.raises(UserError, match="is no type of JSON"):
        to_line({"ds": np.timedelta64(5, unit)})
