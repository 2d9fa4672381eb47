"""Episodes that training has seen do not judge its policy."""

import json

import pytest

from tests.offline import made
from tfagents_batch.errors import UserError
from tfagents_batch.logged import seen
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.timeline import TimelineConfig, build


def table(folder, episodes=60, **settings):
    rows = [x for i in range(episodes) for x in made.episode(2, f"u{i}")]
    with open_rows(rows) as opened:
        build(opened, opened.find_schema(), TimelineConfig(**settings), folder)
    return table_reader.partition(folder)


def ids(found, where):
    import duckdb

    sql = f"SELECT DISTINCT mdp_id FROM {found.table} WHERE {where}"
    with duckdb.connect() as connection:
        return {x for (x,) in connection.execute(sql).fetchall()}


def of_split(found, name):
    return ids(found, f"split = '{name}'")


def record(found):
    """Return the record of a run as its folder holds it."""
    return seen.from_dict(json.loads(json.dumps(seen.of_timeline(found))), "run.json")


def judges(found, *runs):
    where = seen.unseen(found, runs)
    return None if where is None else ids(found, where)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return table(tmp_path_factory.mktemp("first"), eval_share=0.4, train_share=0.6)


def test_half_of_the_episodes_for_evaluation_choose_and_the_others_judge(first):
    chose = ids(first, f"split = 'eval' AND {seen.reported(first).sql}")
    judged = judges(first, record(first))
    assert chose | judged == of_split(first, "eval")
    assert not chose & judged
    assert abs(len(chose) - len(judged)) <= 1


def test_a_policy_that_saw_no_rows_is_judged_by_all_for_evaluation(first):
    assert judges(first) == of_split(first, "eval")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_timeline_with_other_shares_is_judged_by_what_training_has_not_seen(
    first, tmp_path, share
):
    other = table(tmp_path, 90, eval_share=share, train_share=1 - share)
    trained = of_split(first, "train")
    chose = ids(first, f"split = 'eval' AND {seen.reported(first).sql}")
    judged = judges(other, record(first))
    assert judged and judged <= of_split(other, "eval")
    assert not judged & (trained | chose)
    # Episodes that were not in the first log judge, too.
    assert any(int(x[1:]) >= 60 for x in judged)


def test_nothing_is_known_of_a_timeline_with_another_salt(first, tmp_path):
    assert judges(table(tmp_path, salt="other"), record(first)) is None


def test_all_trainings_of_a_policy_count(first, tmp_path):
    other = table(tmp_path, 90, eval_share=0.2, train_share=0.3)
    runs = record(first), record(other)
    assert judges(first, *runs) == judges(first, runs[0]) & judges(first, runs[1])


def test_keys_of_another_program_say_nothing_of_another_table(first):
    own = record(first)._replace(salt=None, fingerprint="of another table")
    assert judges(first, own) is None
    assert judges(first, own._replace(fingerprint=first.fingerprint))


def test_a_single_episode_for_evaluation_is_left_to_training(tmp_path):
    found = table(tmp_path, 8, eval_share=0.2)
    assert len(of_split(found, "eval")) == 1
    assert judges(found, record(found)) == set()


@pytest.mark.parametrize(
    "change",
    [{"trained": None}, {"reported": [1]}, {"salt": 3}, {"trained": ["a", "b"]}],
)
def test_a_record_that_was_changed_is_one_line(first, change):
    with pytest.raises(UserError, match=r"run\.json has training_rows") as error:
        seen.from_dict(seen.of_timeline(first) | change, "run.json")
    assert "\n" not in str(error.value)
