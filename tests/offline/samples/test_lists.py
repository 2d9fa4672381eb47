"""ReAgent's dense samples."""

import pyarrow
from pyarrow import parquet

from tests.offline.samples.imported import ARRAYS, lines, write

# What ReAgent trains on: dense lists with flags, and numbers of actions.
DENSE = {
    "mdp_id": [3418, 3418],
    "sequence_number": [1, 2],
    "state_features": [[0.5, 0.0, -1.0], [0.0, 2.0, 0.0]],
    "state_features_presence": [[True, False, True], [False, True, False]],
    "next_state_features": [[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]],
    "next_state_features_presence": [[False, True, False], [False] * 3],
    "action": [1, 0],
    "next_action": [0, 2],
    "reward": [1.0, 3.0],
    "action_probability": [0.5, 0.25],
    "step": [1, 1],
    "time_diff": [1, 1],
    "not_terminal": [True, False],
    "metrics": [[7.0], [0.0]],
    "metrics_presence": [[True], [False]],
    "possible_actions_mask": [[1, 1], [1, 0]],
    "possible_next_actions_mask": [[1, 0], [0, 0]],
}


def test_dense_lists_of_reagent_are_a_table(tmp_path):
    path = tmp_path / "table.parquet"
    parquet.write_table(pyarrow.table(DENSE), path)
    found, schema = write(path, tmp_path, actions=("L", "R"))
    assert schema.actions == ("L", "R") and schema.features == (0, 1, 2)
    first, last = found
    assert first["mdp_id"] == "3418" and first["metrics"] == {"0": 7.0}
    assert first["state_features"] == {0: 0.5, 2: -1.0}
    assert (first["action"], first["next_action"]) == ("R", "L")
    assert (last["action"], last["next_action"]) == ("L", "")
    assert first["possible_actions"] == ["L", "R"]
    assert last["possible_actions"] == ["L"] and last["possible_next_actions"] == []
    assert [first["not_terminal"], last["not_terminal"]] == [True, False]
    names, _ = write(pyarrow.table(DENSE), tmp_path / "numbers")
    assert [row["action"] for row in names] == ["1", "0"]


def test_the_value_of_reagent_for_a_missing_feature_is_none(tmp_path):
    given = {k: x for k, x in DENSE.items() if "presence" not in k}
    given["state_features"] = pyarrow.array(
        [[0.5, -1337.1337, -1.0], [0.0, float("nan"), -1337.0]],
        pyarrow.list_(pyarrow.float32()),
    )
    (first, last), schema = write(pyarrow.table(given), tmp_path / "lists")
    assert first["state_features"] == {0: 0.5, 2: -1.0}
    assert last["state_features"].keys() == {0, 1, 2}
    assert schema.features == (0, 1, 2)
    rows = [{**ARRAYS, "state_features": {"1": -1337.1337, "2": 1.0}}]
    rows[0]["next_state_features"] = [{"1": 2.0}, {}, {"1": -1337.1337}]
    ((sample,), _) = write(lines(tmp_path, rows), tmp_path / "maps")
    assert sample["state_features"] == {2: 1.0}
    assert sample["next_state_features"] == {}


def test_numbers_of_actions_need_no_next_action(tmp_path):
    given = {k: x for k, x in DENSE.items() if k != "next_action"}
    found, _ = write(pyarrow.table(given), tmp_path)
    assert [(x["action"], x["next_action"]) for x in found] == [("1", ""), ("0", "")]
