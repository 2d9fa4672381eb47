"""Time grows with rows x actions, and not with rows x actions squared."""

import time

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tfagents_batch.offline import table_reader, timeline, validator
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.timeline_config import TimelineConfig

ROWS, FEW, MANY = 500, 250, 2000
LIMIT = 14  # times as long; linear is 8, squared 64


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Return files of rows in which all actions are possible, by their number."""
    folder, found = tmp_path_factory.mktemp("rows"), {}
    for actions in (FEW, MANY):
        names = [f"it's-{k:06d}" for k in range(actions)]
        step = np.arange(ROWS) % 2
        columns = {
            "ds": ["2026-01-01"] * ROWS,
            "mdp_id": [f"e{k // 2}" for k in range(ROWS)],
            "sequence_number": step,
            "state_features": pyarrow.array([[1.0, 2.0]] * ROWS),
            "action": [names[k % actions] for k in range(ROWS)],
            "possible_actions": pyarrow.array([names] * ROWS),
            "action_probability": np.full(ROWS, 1 / actions),
            "reward": np.ones(ROWS),
            "terminated": step == 1,
        }
        found[actions] = folder / f"{actions}.parquet"
        parquet.write_table(pyarrow.table(columns), found[actions])
    return found


def growth(call):
    """Return how many times as long a call takes for many actions as for few."""

    def seconds(actions):
        start = time.process_time()
        call(actions)
        return time.process_time() - start

    return seconds(MANY) / max(seconds(FEW) for _ in range(2))


def test_rows_of_many_named_actions_are_read_in_linear_time(rows, tmp_path):
    tables = {}
    for actions, path in rows.items():
        with open_rows(path) as opened:
            schema, folder = opened.find_schema(), tmp_path / str(actions)
            timeline.build(opened, schema, TimelineConfig(), folder)
        tables[actions] = table_reader.partition(folder)
    assert growth(lambda actions: table_reader.read(tables[actions])) < LIMIT
    columns = table_reader.read(tables[MANY])
    assert columns["mask"].shape == (ROWS, MANY) and columns["mask"].all()
    open_end = ~columns["terminated"]
    np.testing.assert_array_equal(columns["next_mask"].all(1), open_end)
    np.testing.assert_array_equal(columns["next_mask"].any(1), open_end)
    np.testing.assert_array_equal(np.unique(columns["action"]), np.arange(ROWS))


def test_rows_of_many_named_actions_are_checked_in_linear_time(rows):
    opened = {actions: open_rows(path) for actions, path in rows.items()}
    schemas = {actions: each.find_schema() for actions, each in opened.items()}
    options = validator.Options(rare_feature=0, common_action=1.0)

    def check(actions):
        report = validator.validate(opened[actions], schemas[actions], options)
        report.raise_for_errors()

    try:
        assert growth(check) < LIMIT
    finally:
        for each in opened.values():
            each.close()
