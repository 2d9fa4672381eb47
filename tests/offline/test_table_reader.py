import numpy as np
import pytest

from tests.offline import timelines
from tfagents_batch.errors import UserError
from tfagents_batch.offline import table_reader


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walks")
    return table_reader.partition(timelines.build(folder, timelines.walks(masked=True)))


def test_rows_become_numbers(table):
    columns = table_reader.read(table)
    cell = columns["state"].argmax(-1)
    after = columns["next_state"].argmax(-1)
    right = columns["action"] == 1
    assert columns["state"].shape == (table.rows, 5)
    ends = right & (cell == 4)
    np.testing.assert_array_equal(columns["terminated"], ends)
    np.testing.assert_array_equal(columns["reward"], ends)
    moves = np.clip(cell + np.where(right, 1, -1), 0, 4)
    np.testing.assert_array_equal(after[~ends], moves[~ends])
    np.testing.assert_array_equal(columns["mask"][:, 0], cell > 0)
    np.testing.assert_array_equal(columns["next_mask"][~ends, 0], after[~ends] > 0)
    assert columns["mask"][:, 1].all() and not columns["next_mask"][ends].any()
    np.testing.assert_allclose(columns["discount"], 0.99)
    np.testing.assert_allclose(columns["propensity"], np.where(cell > 0, 0.5, 1))
    assert table_reader.masked(table)


def columns_of(table, *names):
    """Return the columns and the values of these for each row."""
    columns = table_reader.read(table)
    return columns, list(zip(*(columns[x].tolist() for x in names), strict=True))


def test_next_actions_are_unknown_only_at_the_end_of_an_episode(table):
    names = "episode", "ordinal", "action", "next_action"
    _, rows = columns_of(table, *names)
    actions = {(e, k): action for e, k, action, _ in rows}
    for e, k, _, after in rows:
        assert after == actions.get((e, k + 1), table_reader.UNKNOWN)


def test_returns_are_known_where_an_episode_has_ended(table):
    columns, rows = columns_of(table, "episode", "ordinal", "terminated")
    ends = {e: k for e, k, end in rows if end}
    assert ends
    for (e, k, _), value in zip(rows, table_reader.returns(columns), strict=True):
        expected = 0.99 ** (ends[e] - k) if e in ends else np.nan
        assert value == pytest.approx(expected, nan_ok=True)


def test_steps_to_the_end_are_known_where_an_episode_has_ended(table):
    columns, rows = columns_of(table, "episode", "ordinal", "terminated")
    ends = {e: k for e, k, end in rows if end}
    found = table_reader.steps_to_end(columns)
    for (e, k, _), steps in zip(rows, found, strict=True):
        assert steps == (ends[e] + 1 - k if e in ends else 0)


def test_returns_and_steps_of_a_few_rows():
    """Episode 5 has sums of two rewards; of episode 2 a row is missing."""
    columns = {
        "episode": np.array([5, 2, 5, 2, 5, 5]),
        "ordinal": np.array([3, 1, 1, 3, 4, 2], np.int32),
        "step": np.array([2, 1, 2, 1, 1, 2], np.int32),
        "terminated": np.array([1, 0, 0, 1, 1, 0], bool),
        "reward": np.array([10, 1, 4, 7, 6, 3], np.float32),
        "discount": np.array([np.nan, 0.5, 0.25, 0.5, 0.5, 0.25], np.float32),
    }
    expected = [10, np.nan, 4 + 0.25 * 10, 7, 6, 3 + 0.25 * 6]
    np.testing.assert_array_equal(table_reader.returns(columns), expected)
    np.testing.assert_array_equal(
        table_reader.steps_to_end(columns), [2, 3, 4, 1, 1, 3]
    )


def test_blocks_are_all_rows_in_order(tmp_path):
    rows = timelines.walks(30)
    table = table_reader.partition(timelines.build(tmp_path, rows))
    blocks = table_reader.blocks(table, 50)
    assert sum(block.rows for block in blocks) == table.rows
    whole = table_reader.read(table)
    parts = [table_reader.read(table, block) for block in blocks]
    for name, column in whole.items():
        np.testing.assert_array_equal(column, np.concatenate([x[name] for x in parts]))
    found = [table_reader.training_rows(table, block) for block in blocks]
    assert found == [x["trains"].sum() for x in parts]
    kept = table_reader.of_split(table, table_reader.EVALUATE, 10**6)
    assert len(kept["reward"]) == (~whole["trains"]).sum()


def test_parametric_actions_are_numbers_of_candidates(tmp_path):
    rows = []
    for row in timelines.walks(20, masked=True):
        features = {"left": {100: -1.0}, "right": {100: 1.0, 101: 0.5}}
        for name in ("possible_actions", "final_possible_actions"):
            if name in row:
                row[name] = [features[x] for x in row[name]]
        rows.append(row | {"action": features[row["action"]]})
    table = table_reader.partition(timelines.build(tmp_path, rows, "parametric"))
    columns = table_reader.read(table)
    assert columns["candidates"].shape == (table.rows, 2, 2)
    assert table_reader.most_candidates(table) == 2
    chosen = columns["candidates"][np.arange(table.rows), columns["action"]]
    assert set(map(tuple, chosen)) == {(-1.0, 0.0), (1.0, 0.5)}
    cell = columns["state"].argmax(-1)
    np.testing.assert_array_equal(columns["mask"].sum(-1), np.where(cell > 0, 2, 1))


def test_a_folder_without_a_timeline_is_refused(tmp_path):
    with pytest.raises(UserError, match="has no timeline; expected a folder"):
        table_reader.partition(tmp_path)


def test_a_timeline_that_is_made_again_ends_the_reading_of_the_old_one(tmp_path):
    table = table_reader.partition(timelines.build(tmp_path, timelines.walks(30)))
    blocks = table_reader.blocks(table, 50)
    timelines.build(tmp_path, timelines.walks(30))
    for read in (
        lambda: table_reader.read(table),
        lambda: table_reader.read(table, blocks[0]),
        lambda: table_reader.blocks(table, 50),
        lambda: table_reader.training_rows(table, blocks[0]),
        lambda: table_reader.of_split(table, table_reader.TRAIN, 10),
    ):
        with pytest.raises(UserError, match=r"part-.* is gone: .* made again.*Start"):
            read()


def test_numbers_that_float32_lacks_are_refused(tmp_path):
    reward = "reward * 1e39 + 1e39"
    data = timelines.build(tmp_path, timelines.walks(5), custom_reward=reward)
    with pytest.raises(UserError, match=r"beyond float32.*\de\+39.*--custom_reward"):
        table_reader.read(table_reader.partition(data))
