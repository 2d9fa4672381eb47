"""Samples of Horizon, typed by hand, as tables to train from."""

import pytest

from tests.offline.samples.imported import ARRAYS, H19, lines, write
from tfagents_batch.errors import UserError
from tfagents_batch.offline import table_reader


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
    columns = table_reader.read(table_reader.partition(tmp_path / "table"))
    assert columns["terminated"].tolist().count(True) == 1


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
