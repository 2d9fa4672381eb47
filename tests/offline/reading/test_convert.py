"""Tests that an ordinary table becomes the rows that its columns say."""

import gzip

import duckdb
import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.reading.convert import convert
from tfagents_batch.offline.reading.convert_settings import Column, ConvertSettings
from tfagents_batch.offline.validator import validate

HOUR = 3_600_000_000
BASE = {"action": "offer", "features": ("age",), "episode": "user", "order": "time"}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Return a function that writes a CSV file of a dict of columns."""
    monkeypatch.chdir(tmp_path)

    def write(name="decisions.csv", delimiter=",", **columns):
        count = max(len(x) for x in columns.values() if isinstance(x, list))
        columns = {
            k: x if isinstance(x, list) else [x] * count for k, x in columns.items()
        }
        lines = [columns, *zip(*columns.values(), strict=True)]
        text = "".join(delimiter.join(map(str, x)) + "\n" for x in lines)
        (tmp_path / name).write_text(text)
        return name

    return write


def decisions(**changes):
    """Return the columns of 40 decisions about two users, an hour apart."""
    found = {
        "user": [f"00{k % 2}" for k in range(40)],
        "time": [f"2026-01-{1 + k // 24:02}T{k % 24:02}:00:00" for k in range(40)],
        "age": [str(20 + k) for k in range(40)],
        "offer": ["none", "gift", "none", "none"] * 10,
    }
    return found | changes


def rows(data="decisions.csv", **settings):
    """Convert a table; return the result and the rows as dicts."""
    given = {k: x for k, x in (BASE | settings).items() if k != "known"}
    found = convert([data], "rows", ConvertSettings(**given), settings.get("known", ()))
    with open_rows("rows") as opened:
        assert not validate(opened).errors
    relation = duckdb.sql("SELECT * FROM 'rows/rows.parquet'")
    names = relation.columns
    return found, [dict(zip(names, x, strict=True)) for x in relation.fetchall()]


def test_brackets_of_a_file_that_exists_are_no_glob(table):
    table("data[1].csv", **decisions())
    table("data1.csv", **decisions(age=["-1"] * 40))
    assert rows("data[1].csv")[1][0]["state_features"] == {0: 20.0}


def test_ids_stay_text_and_time_stamps_are_the_order(table):
    table(**decisions())
    found, written = rows()
    assert found.rows == 40 and found.columns == (Column("age"),)
    assert [x["mdp_id"] for x in written[:2]] == ["000", "001"]
    assert written[1]["sequence_number"] - written[0]["sequence_number"] == HOUR
    assert (written[30]["ds"], written[30]["reward"]) == ("2026-01-02", 0.0)
    assert written[3]["state_features"] == {0: 23.0}


def test_decisions_of_the_same_time_keep_the_order_of_the_file(table):
    given = decisions()
    given["time"] = [x[:10] for x in given["time"]]
    table(**given)
    found, written = rows()
    own = [x["sequence_number"] for x in written if x["mdp_id"] == "001"]
    assert [x - own[0] for x in own[:4]] == [0, 1, 2, 3]
    assert own[12] - own[0] == 24 * HOUR
    assert any("have the episode and time of another one" in x for x in found.notices)


def test_a_time_zone_counts_and_no_zone_is_utc(table):
    given = decisions()
    given["time"][0], given["time"][1] = "2026-01-01T02:00:00+02:00", "2026-01-01"
    table(**given)
    _, written = rows()
    assert written[0]["sequence_number"] == written[1]["sequence_number"]


def test_numbers_are_an_order_too(table):
    table(**decisions(time=[str(1_700_000_000 + k) for k in range(40)]))
    _, written = rows()
    assert (written[2]["sequence_number"], written[2]["ds"]) == (1_700_000_002, "all")


def test_without_an_episode_each_row_is_one(table):
    table(**decisions())
    _, written = rows(episode=None, order=None)
    assert len({x["mdp_id"] for x in written}) == 40
    assert all(x["terminated"] for x in written)


@pytest.mark.parametrize("none", ["", "NULL", "nan"])
def test_what_is_no_value_is_a_missing_feature(table, none):
    country = ["DE", none, "FR", "DE"] * 10
    table(**decisions(age=[none, "30"] * 20, country=country))
    found, written = rows(categories=("country",))
    assert found.columns[1] == Column("country", ("DE", "FR"))
    assert [x["state_features"] for x in written[:3]] == [{1: 0.0}, {0: 30.0}, {1: 1.0}]


def test_known_names_keep_their_numbers_and_new_ones_are_missing(table):
    table(**decisions(country=["FR", "PL", "DE", "FR"] * 10))
    known = Column("country", ("US", "FR", "DE")), Column("age")
    found, written = rows(features=(), known=known)
    assert found.columns == known
    features = [x["state_features"] for x in written[:3]]
    assert features == [{0: 1.0, 1: 20.0}, {1: 21.0}, {0: 2.0, 1: 22.0}]
    assert "10 rows have other names in 'country'" in found.notices[1]


def test_rewards_are_found_by_id_and_summed(table):
    table(**decisions(id=[f"d{k}" for k in range(40)]))
    table("later.csv", order=["d3", "d3", "d7", "x"], amount=[5, 2.5, -1, 9])
    found, written = rows(
        rewards=("later.csv",), reward="amount", id="id", reward_id="order"
    )
    assert {k: x["reward"] for k, x in enumerate(written) if x["reward"]} == {
        3: 7.5,
        7: -1.0,
    }
    assert (
        "3 used, 0 outside of the window, 1 belong to no decision" in found.notices[0]
    )


def test_rewards_belong_to_the_last_decision_before_them(table):
    table(**decisions())
    moments = ["2026-01-01T02:30:00", "2026-01-01T04:00:00", "2025-12-31"]
    table("later.csv", customer="000", at=moments, amount=[1, 2, 4])
    columns = {"reward_episode": "customer", "reward_time": "at"}
    found, written = rows(rewards=("later.csv",), reward="amount", **columns)
    assert {k: x["reward"] for k, x in enumerate(written) if x["reward"]} == {
        2: 1,
        4: 2,
    }
    assert "1 belong to no decision" in found.notices[0]


def test_rewards_after_the_window_do_not_count_and_young_decisions_are_left_out(table):
    table(**decisions())
    moments = ["2026-01-01T00:59:00", "2026-01-01T04:30:00"]
    table("later.csv", user=["000", "001"], time=moments, amount=[1, 2])
    found, written = rows(rewards=("later.csv",), reward="amount", window=4500.0)
    assert [x["reward"] for x in written] == [1, *[0] * 37]
    assert "1 used, 1 outside of the window, 0 belong to no" in found.notices[0]
    assert "2 decisions are younger" in found.notices[0]
    assert {x["truncated"] for x in written[:-2]} == {None}
    # The state of the first decision that is left out.
    ends = [(x["truncated"], x["final_state_features"]) for x in written[-2:]]
    assert ends == [(True, {0: 58.0}), (True, {0: 59.0})]
    with pytest.raises(
        UserError, match="no reward counts: 2 are outside of the window"
    ):
        rows(rewards=("later.csv",), reward="amount", window=60.0)
    with pytest.raises(UserError, match="all 40 decisions are younger than --window"):
        rows(rewards=("later.csv",), reward="amount", window=1e6)


def test_a_column_has_the_reward_and_one_the_end(table):
    table(**decisions(amount=["1.5", ""] * 20, left=["false"] * 38 + ["true"] * 2))
    _, written = rows(reward="amount", terminated="left", default_reward=-1.0)
    assert [x["reward"] for x in written[:2]] == [1.5, -1.0]
    assert [x["terminated"] for x in written[-3:]] == [False, True, True]


def test_parquet_and_compressed_files_are_the_same_table(table, tmp_path):
    table(**decisions(), delimiter=";")
    _, expected = rows()
    text = (tmp_path / "decisions.csv").read_bytes()
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text))
    duckdb.sql(
        "COPY (FROM read_csv('decisions.csv', types={'user': 'VARCHAR'})) "
        "TO 'typed.parquet'"
    )
    assert rows("packed.csv.gz")[1] == expected == rows("typed.parquet")[1]


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        ({}, {"action": ""}, "pass --action=<column>"),
        ({}, {"action": "ofer"}, "no column 'ofer'; did you mean 'offer'"),
        ({}, {"features": ()}, "pass the columns of features"),
        (
            {"age": ["many"] * 40},
            {},
            "'age' has 'many' in row 1 .*add --categories=age",
        ),
        (
            {"time": ["31.12.2026"] * 40},
            {},
            "has '31.12.2026' in row 1 .*seconds since 1970, or time stamps",
        ),
        ({"offer": ["a", ""] * 20}, {}, "'offer' has no value in row 2 .*20 of 40"),
        ({"age": ["1"] * 19 + [""] * 21}, {}, "'age' has 19 values; expected at least"),
        ({"7": ["1"] * 40}, {"features": ("7",)}, "feature 7 has the name of a number"),
        ({}, {"categories": ("age",), "max_categories": 5}, "40 different names"),
        ({}, {"window": 5.0}, "--window and --reward_id need --rewards"),
        ({}, {"rewards": ("x.csv",)}, "--rewards needs --reward=<column>"),
        ({}, {"rewards": ("x.csv",), "reward": "a", "reward_id": "b"}, "needs --id"),
        ({}, {"rewards": ("x.csv",), "reward": "a"}, "x.csv is no file"),
        (
            {"p": ["0.5"] * 39 + ["1.7"]},
            {"probability": "p"},
            "--probability: column 'p' has '1.7' in row 40 .*above 0 and up to 1",
        ),
        ({"id": ["a"] * 40}, {"id": "id"}, "'id' has 39 ids more than once"),
    ],
)
def test_a_wrong_column_is_named(table, columns, settings, message):
    table(**decisions() | columns)
    with pytest.raises(UserError, match=message):
        rows(**settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "first line of t.csv is ''"),
        ("user,offer\n", "t.csv has no rows"),
        ("user,user\n1,2\n", "names of the columns, each once"),
        ("user,offer\n1,2\n1,2,3\n", "line 3 of t.csv, '1,2,3', has 3 columns; exp"),
        ("user,offer\n1,2\n1\n", "line 3 of t.csv, '1', has 1 columns; expected 2"),
        ('user,offer\n1,"2\n', "CSV Error on Line: 2"),
        (b"user,offer\n\xff,2\n", "that are not UTF-8; save it"),
        (b"user,offer\n" + b"1,2\n" * 9000 + b"\xff,2\n", "that are not UTF-8; save"),
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    data = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(UserError, match=message):
        rows("t.csv")


def test_rewards_of_others_are_an_error(table):
    table(**decisions())
    table("later.csv", user="9", time=["2026-02-01"], amount="1")
    with pytest.raises(
        UserError, match=r"no reward counts: 0 .* and 1 belong to no decision"
    ):
        rows(rewards=("later.csv",), reward="amount")
    table("later.csv", user="000", time=["1767312000"], amount="1")
    with pytest.raises(UserError, match="one has time stamps, the other one numbers"):
        rows(rewards=("later.csv",), reward="amount")


def test_a_folder_of_other_files_is_not_replaced(table, tmp_path):
    table(**decisions())
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/mine.txt").write_text("mine")
    with pytest.raises(UserError, match=r"mine.txt, which no convert wrote"):
        rows()


def test_an_episode_that_goes_on_after_its_end_is_named(table):
    ends = ["true" if k in (3, 38, 39) else "false" for k in range(40)]
    table(**decisions(churned=ends))
    message = (
        "--terminated: column 'churned' is true in row 4, but episode '001' goes on in "
        r"row 6 \(1 rows are wrong\); expected true only in the last row"
    )
    with pytest.raises(UserError, match=message):
        rows(terminated="churned")


def test_decisions_that_a_file_has_twice_are_an_error_or_left_out(table):
    paid = {"reward": "paid"}
    columns = decisions(paid=["1"] * 40)
    table(**columns)
    _, expected = rows(**paid)
    table(**{k: x + x[:5] for k, x in columns.items()})
    with pytest.raises(
        UserError, match=r"5 rows equal an earlier one, such as row 1, in"
    ):
        rows(**paid)
    found, written = rows(**paid, on_duplicate="first")
    assert written == expected
    assert found.notices == ("5 rows that equal an earlier one are left out",)
    found, written = rows(**paid, on_duplicate="keep")
    assert len(written) == 45
    assert "5 rows have the episode and time of another one" in found.notices[0]
    changed = columns["offer"] + ["gift", "none", "gift", "gift", "gift"]
    table(**{k: x + x[:5] for k, x in columns.items()} | {"offer": changed})
    assert len(rows(**paid)[0].notices) == 1
    table(**{k: x + x[:5] for k, x in columns.items()}, id=[f"{k}" for k in range(45)])
    assert len(rows(**paid, id="id")[1]) == 45


def test_rewards_that_are_not_given_are_said(table):
    table(**decisions())
    assert rows()[0].notices == ("every reward is 0, since no --reward is given",)
