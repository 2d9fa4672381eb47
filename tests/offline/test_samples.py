"""Samples of Horizon and ReAgent, typed by hand, as tables to train from."""

import json

import pyarrow
import pytest
from pyarrow import parquet

from tests.support import logged
from tfagents_batch.errors import UserError
from tfagents_batch.offline import dense, manifest
from tfagents_batch.offline.reading import samples
from tfagents_batch.offline.timeline_config import TimelineConfig

# A timeline of Horizon (2019): JSON lines, maps with keys of strings.
H19 = [
    {
        "mdp_id": "10",
        "sequence_number": 0,
        "propensity": 0.9,
        "state_features": {"0": 0.5, "1": -1.0},
        "action": "left",
        "reward": 1.0,
        "next_state_features": {"0": 0.25},
        "next_action": "right",
        "sequence_number_ordinal": 1,
        "time_diff": 1,
        "possible_actions": ["left", "right"],
        "possible_next_actions": ["left", "right"],
        "metrics": {"reward": 1.0},
        "ds": "2019-01-01",
    },
    {
        "mdp_id": "10",
        "sequence_number": 1,
        "propensity": 0.8,
        "state_features": {"0": 0.25},
        "action": "right",
        "reward": 2.0,
        "next_state_features": {},
        "next_action": "",
        "sequence_number_ordinal": 2,
        "time_diff": 0,
        "possible_actions": ["left", "right"],
        "possible_next_actions": [],
        "metrics": {"reward": 2.0},
        "ds": "2019-01-01",
    },
]
# One of ReAgent for three rewards: what follows is in arrays.
ARRAYS = {
    "mdp_id": "10",
    "sequence_number": 3,
    "sequence_number_ordinal": 1,
    "state_features": {"1": 1.0},
    "action": "a",
    "action_probability": 0.5,
    "reward": [1.0, 2.0, 4.0],
    "metrics": [{"m": 10.0}, {"m": 20.0}, {}],
    "next_state_features": [{"1": 2.0}, {"1": 3.0}, {"1": 4.0}],
    "next_action": ["b", "a", "b"],
    "time_diff": [2, 5, 6],
    "possible_actions": ["a", "b"],
    "possible_next_actions": [["a"], ["b"], ["a", "b"]],
    "time_since_first": 0,
    "ds": "2019-01-01",
}
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


def lines(folder, rows):
    path = folder / "part-00000.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write(data, folder, mode="discrete", actions=(), **settings):
    config = TimelineConfig(**{"gamma": 0.5} | settings)
    target, count = samples.write(data, folder / "table", config, mode, actions)
    found = logged.samples(target)
    assert len(found) == count
    return found, manifest.schema(target)


def test_a_timeline_of_horizon_is_a_table(tmp_path):
    found, schema = write(lines(tmp_path, H19), tmp_path)
    assert schema.actions == ("left", "right") and schema.features == (0, 1)
    first, last = found
    assert first["state_features"] == {0: 0.5, 1: -1.0}
    assert first["action_probability"] == 0.9  # the old name is propensity
    assert first["not_terminal"] and not last["not_terminal"]
    assert first["next_action"] == "right" and last["next_action"] == ""
    assert first["discount"] == 0.5 and first["step"] == 1
    assert first["split"] == last["split"] == "eval"  # by the hash of "10"
    columns = dense.read(dense.partition(tmp_path / "table"))
    assert columns["terminated"].tolist().count(True) == 1


@pytest.mark.parametrize("discount", ["step", "time"])
def test_arrays_are_reduced_as_the_timeline_does_it(tmp_path, discount):
    (found,), _ = write(lines(tmp_path, [ARRAYS]), tmp_path, discount=discount)
    by_time = discount == "time"
    factors = [1, 0.5**2, 0.5**5] if by_time else [1, 0.5, 0.25]
    assert found["reward"] == factors[0] + 2 * factors[1] + 4 * factors[2]
    assert found["metrics"] == {"m": 10 + 20 * factors[1]}
    assert found["next_state_features"] == {1: 4.0}
    assert found["next_action"] == "b" and found["time_diff"] == 6
    assert found["possible_next_actions"] == ["a", "b"] and found["not_terminal"]
    assert found["step"] == 3 and found["discount"] == (0.5**6 if by_time else 0.125)


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


def test_parametric_and_continuous_samples_end_without_a_next_action(tmp_path):
    rows = [
        row | {"action": {"9": 1.0}, "next_action": after}
        for row, after in zip(H19, [{"9": 2.0}, {}], strict=True)
    ]
    for row in rows:
        del row["possible_actions"], row["possible_next_actions"]
    for mode in ("parametric", "continuous"):
        found, schema = write(lines(tmp_path, rows), tmp_path / mode, mode)
        assert schema.action_features == (9,)
        assert [x["not_terminal"] for x in found] == [True, False]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"reward": None}, "1 of 2 samples have a reward that is missing"),
        ({"next_action": "up"}, "1 of 2 samples have an unknown next action"),
        ({"action": "up"}, "the samples have the actions up, which are none of"),
        ({"mdp_id": None}, "1 of 2 samples have no mdp_id or sequence_number"),
    ],
)
def test_samples_without_a_meaning_are_refused(tmp_path, changes, message):
    data = lines(tmp_path, [H19[0], H19[1] | changes])
    with pytest.raises(UserError, match=message):
        write(data, tmp_path, actions=("left", "right"))
    assert not list(tmp_path.glob("table/ds=*"))


def test_logged_rows_are_no_samples(tmp_path):
    row = {k: x for k, x in H19[0].items() if not k.startswith("next")}
    with pytest.raises(UserError, match="the samples lack next_state_features"):
        write(lines(tmp_path, [row]), tmp_path)
