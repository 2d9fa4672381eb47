import collections
import datetime
import gzip
import os
import signal
import subprocess
import sys
import tempfile

import duckdb
import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest

from tests.offline import made
from tfagents_batch.errors import UserError
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.reading import staging
from tfagents_batch.offline.schema import Schema, types

FEATURES = pyarrow.map_(pyarrow.string(), pyarrow.float64())


def read(data, columns="*", mode="discrete", **arguments):
    """Return the rows as dicts."""
    with open_rows(data, mode, **arguments) as rows:
        table = rows.connection.sql(f"SELECT {columns} FROM rows ORDER BY file, row")
        names = table.columns
        return [dict(zip(names, each, strict=True)) for each in table.fetchall()]


def table(rows):
    """Return rows as an Arrow table with maps."""
    fields = {
        "sequence_number": pyarrow.int64(),
        "state_features": FEATURES,
        "metrics": FEATURES,
    }
    columns = {}
    for name in rows[0]:
        values = [each.get(name) for each in rows]
        if fields.get(name) == FEATURES:
            values = [list(value.items()) for value in values]
        columns[name] = pyarrow.array(values, fields.get(name))
    return pyarrow.table(columns)


def test_a_json_line_has_all_columns_with_their_types(tmp_path):
    path = made.write(tmp_path / "a.jsonl", [made.row()])
    with open_rows(path) as rows:
        view = rows.connection.sql("FROM rows")
        found = dict(zip(view.columns, map(str, view.types), strict=True))
        added = {"file": "VARCHAR", "row": "BIGINT", "unread": "MAP(VARCHAR, VARCHAR)"}
        assert found == types("discrete") | added
        assert rows.notices == [] and rows.unknown_columns == ()
    (row,) = read(path)
    given = {name: value for name, value in row.items() if value is not None}
    assert given == made.row(state_features={0: 0.12, 3: 7.0}, file=str(path), row=1)


SOURCES = {
    "list": lambda rows, path: rows,
    "iterator": lambda rows, path: iter(rows),
    "arrow": lambda rows, path: table(rows),
    "batches": lambda rows, path: table(rows).to_reader(),
    "polars": lambda rows, path: collections.namedtuple("Frame", "to_arrow")(
        lambda: table(rows)
    ),
    "pandas": lambda rows, path: pandas.DataFrame(rows),
    "relation": lambda rows, path: duckdb.connect().from_arrow(table(rows)),
    "json": lambda rows, path: made.write(path / "a.jsonl", rows),
    "text": lambda rows, path: str(made.write(path / "a.json", rows)),
    "glob": lambda rows, path: f"{made.write(path / 'a.ndjson', rows).parent}/*",
    "folder": lambda rows, path: made.write(path / "a.jsonl", rows).parent,
    "gzip": lambda rows, path: compressed(made.write(path / "a.jsonl", rows)),
    "parquet": lambda rows, path: parquet(path / "a.parquet", table(rows)),
}


def compressed(path):
    target = path.with_suffix(".jsonl.gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    return target


def parquet(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(content, path)
    return path


@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_data_gives_the_same_rows(kind, tmp_path):
    rows = made.episode(3)
    rows[0]["terminated"] = rows[1]["terminated"] = None
    found = read(SOURCES[kind](rows, tmp_path), "* EXCLUDE (file, row, unread)")
    assert found == read(rows, "* EXCLUDE (file, row, unread)")
    assert [each["sequence_number"] for each in found] == [0, 1, 2]
    assert found[0]["state_features"] == {0: 0.12, 3: 7}
    assert [each["terminated"] for each in found] == [None, None, True]


def test_rows_of_many_files_are_numbered_in_each(tmp_path):
    lengths = [1, 3000, 0, 2, 5000, 1]
    for number, length in enumerate(lengths):
        rows = [made.row(sequence_number=k) for k in range(length)]
        path = made.write(tmp_path / f"{number}.jsonl", rows)
        if number % 2:
            compressed(path)
            path.unlink()
    parquet(tmp_path / "6.parquet", table([made.row(sequence_number=0)]))
    found = read(tmp_path, "file, row, sequence_number AS number")
    assert all(each["row"] == each["number"] + 1 for each in found)
    counts = collections.Counter(os.path.basename(each["file"])[0] for each in found)
    assert counts == {"0": 1, "1": 3000, "3": 2, "4": 5000, "5": 1, "6": 1}


def test_files_that_are_being_written_are_left_out(tmp_path):
    made.write(tmp_path / "a.jsonl", [made.row()])
    made.write(tmp_path / ".b.jsonl", ["half a li"])
    (tmp_path / "_temporary").mkdir()
    made.write(tmp_path / "_temporary" / "c.jsonl", ["half a li"])
    assert len(read(tmp_path)) == 1


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_hive_folders_give_ds_as_text(kind, tmp_path, monkeypatch):
    days = {"ds=2026-01-02": None, "ds=20260103": "2026-01-09", "ds=a%20b": None}
    for folder, ds in days.items():
        (tmp_path / folder).mkdir()
        SOURCES[kind]([made.row(ds=ds)], tmp_path / folder)
    SOURCES[kind]([made.row(ds="2026-01-04")], tmp_path)
    expected = ["2026-01-04", "2026-01-02", "20260103", "a b"]
    assert [x["ds"] for x in read(tmp_path)] == expected
    monkeypatch.chdir(tmp_path)
    assert [x["ds"] for x in read("ds=20260103/*")] == ["20260103"]


KILLED = """if True:
    import os, signal, sys
    from tfagents_batch.offline.reader import open_rows

    rows = open_rows(sys.argv[1])
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_temporary_files_of_a_killed_process_are_removed(tmp_path, monkeypatch):
    path = made.write(tmp_path / "a.jsonl", [made.row()])
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    environment = os.environ | {"TMPDIR": str(folder)}
    subprocess.run([sys.executable, "-c", KILLED, path], env=environment)
    (left,) = folder.iterdir()
    with open_rows(path):
        assert not left.exists()
        (first,) = folder.iterdir()
        with open_rows(path) as second:  # the first one is still open
            assert first.exists() and len(second.fetch("FROM rows")) == 1
    assert not list(folder.iterdir())


def test_ctrl_c_ends_the_parsing_of_json(tmp_path, monkeypatch):
    path = made.write(tmp_path / "a.jsonl", [made.row()])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()

    def endless(connection, *_):
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        connection.execute("SELECT max(hash(range)) FROM range(1000000000000000)")

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    monkeypatch.setattr(staging, "parse", endless)
    try:
        with pytest.raises(KeyboardInterrupt):
            open_rows(path)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not list((tmp_path / "temporary").iterdir())


def test_files_may_have_different_columns_and_types(tmp_path):
    old = table([made.row()]).drop_columns(["metrics", "action_probability"])
    old = old.append_column("propensity", pyarrow.array([0.5], pyarrow.float32()))
    numbers = old.schema.get_field_index("sequence_number")
    old = old.set_column(numbers, "sequence_number", pyarrow.array(["4"]))
    parquet(tmp_path / "a.parquet", old)
    parquet(tmp_path / "b.parquet", table([made.row()]))
    first, second = read(tmp_path)
    assert first["metrics"] is None and second["metrics"] is not None
    assert first["action_probability"] == 0.5 and second["action_probability"] == 0.9
    assert first["sequence_number"] == 4


@pytest.mark.parametrize("kind", ["list", "parquet"])
def test_propensity_is_an_alias_with_a_notice(kind, tmp_path):
    rows = [made.row(propensity=0.25), made.row(propensity=0.5)]
    rows[1]["action_probability"] = None
    found = read(SOURCES[kind](rows, tmp_path))
    assert [each["action_probability"] for each in found] == [0.9, 0.5]
    with open_rows(SOURCES[kind](rows, tmp_path)) as found:
        (notice,) = found.notices
        assert notice.startswith("column propensity is read as action_probability")
        assert found.unknown_columns == ()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"features": [[1.0, 0.0, 3.0]]}, {0: 1.0, 1: 0.0, 2: 3.0}),
        (
            {"features": [[1.0, 0.0, 3.0]], "features_presence": [[True, False, True]]},
            {0: 1.0, 2: 3.0},
        ),
        ({"features": [{"0": 1, "7": None}]}, {0: 1.0}),
        ({"features": [[{"key": 5, "value": 2.5}]]}, {5: 2.5}),
        ({"features": ['{"3": 1}']}, {3: 1.0}),
    ],
)
def test_lists_structs_pairs_and_texts_are_maps(values, expected):
    rows = table([made.row(state_features=None)])
    for name, value in values.items():
        rows = rows.append_column(f"state_{name}", pyarrow.array(value))
    assert read(rows)[0]["state_features"] == expected
    with open_rows(rows) as found:
        assert found.unknown_columns == ()


def test_actions_in_json_texts_are_read():
    rows = table([made.row(possible_actions=None)])
    rows = rows.append_column("possible_actions", pyarrow.array(['["send", "x"]']))
    assert read(rows)[0]["possible_actions"] == ["send", "x"]


def test_vectors_and_numbers_of_numpy_are_read():
    row = made.row(
        state_features=np.float32([0.5, 2]),
        reward=np.float32(0.5),
        sequence_number=np.int64(2**60 + 1),
        ds=datetime.date(2026, 1, 2),
    )
    (found,) = read([row, made.row()][:1])
    assert found["state_features"] == {0: 0.5, 1: 2.0}
    assert found["sequence_number"] == 2**60 + 1
    assert found["ds"] == "2026-01-02"


WHOLE = {
    "dicts": lambda rows: rows,
    "numpy": lambda rows: [
        each | {"mdp_id": np.float32(7), "action": np.float64(1)} for each in rows
    ],
    "pandas": pandas.DataFrame,
    "arrow": pyarrow.Table.from_pylist,
    "polars": lambda rows: collections.namedtuple("Frame", "to_arrow")(
        lambda: pyarrow.Table.from_pylist(rows)
    ),
    "relation": lambda rows: duckdb.connect().from_arrow(
        pyarrow.Table.from_pylist(rows)
    ),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_whole_floats_are_whole_numbers_in_all_kinds_of_data(kind):
    row = {
        "ds": datetime.datetime(2024, 3, 31, 23, 30, 0, 500000, datetime.UTC),
        "mdp_id": 7.0,
        "sequence_number": 3.0,
        "state_features": [1.5],
        "action": 1.0,
        "reward": 1.0,
        "possible_actions": [0.0, 1.0],
        "terminated": 1.0,
    }
    (found,) = read(WHOLE[kind]([row]), "* EXCLUDE (file, row)")
    expected = row | {
        "ds": "2024-03-31 23:30:00.5",
        "mdp_id": "7",
        "sequence_number": 3,
        "state_features": {0: 1.5},
        "action": "1",
        "possible_actions": ["0", "1"],
        "terminated": True,
    }
    assert {name: x for name, x in found.items() if x is not None} == expected
    with open_rows(WHOLE[kind]([row])) as rows:
        assert rows.find_schema().actions == ("0", "1")


def test_a_missing_value_makes_no_other_ids_in_pandas():
    frame = pandas.DataFrame([made.row(mdp_id=7), made.row(mdp_id=8)])
    frame["mdp_id"] = frame["mdp_id"].where(frame["mdp_id"] == 7)
    assert frame["mdp_id"].dtype == "float64"
    assert [row["mdp_id"] for row in read(frame)] == ["7", None]


def test_keys_that_are_floats_are_ids():
    row = made.row(state_features={7.0: 1.0, np.float32(8): 2.0, np.int64(9): 3.0})
    assert read([row])[0]["state_features"] == {7: 1.0, 8: 2.0, 9: 3.0}
    (found,) = read([made.row(state_features={7.5: 1.0})])
    assert found["unread"] == {"state_features": '{"7.5":1.0}'}


NAMES = "[none]", "{skip}", '["a"]', '{"a": 1}', "[", "null", '"quoted"', "it's {"


def test_names_in_brackets_are_names_in_every_form(tmp_path):
    given = [
        made.row(action=x, possible_actions=NAMES, mdp_id=x, metrics={x: 1.0})
        for x in NAMES
    ]
    for kind in (given, [made.write(tmp_path / "rows.jsonl", given)]):
        with open_rows(kind) as rows:
            columns = "action, mdp_id, possible_actions, map_keys(metrics), unread"
            found = rows.fetch(f"SELECT {columns} FROM {rows.view} ORDER BY row")
        assert found == [(x, x, [*NAMES], [x], None) for x in NAMES]


@pytest.mark.parametrize("value", [{"a": 1.0}, ["a"], [], {}])
def test_objects_and_lists_are_no_names_of_actions(value):
    with open_rows([made.row(action=value)]) as rows:
        ((action, unread),) = rows.fetch(f"SELECT action, unread FROM {rows.view}")
    assert action is None and "action" in unread


def test_actions_with_features_are_maps():
    (found,) = read(iter([made.parametric()]), mode="parametric")
    assert found["action"] == {100: 0.3, 101: 1.0}
    assert found["possible_actions"] == [{100: 0.3, 101: 1.0}, {100: 0.5}]
    (found,) = read([made.continuous()], mode="continuous")
    assert found["action"] == {10: 0.5} and found["action_log_density"] == -1
    assert "possible_actions" not in found


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("sequence_number", 1.5, "1.5"),
        ("sequence_number", "later", "later"),
        ("state_features", {"age": 1}, '{"age":1}'),
        ("state_features", {"1.5": 1}, '{"1.5":1}'),
        ("state_features", "x", '"x"'),
        ("action", {"1": 2}, '{"1":2}'),
        ("action_probability", "x", "x"),
        ("reward", True, "true"),
        ("possible_actions", "send", '"send"'),
        ("terminated", "maybe", "maybe"),
    ],
)
def test_a_value_without_a_reading_is_null_and_noted(column, value, text):
    first, second = read([made.row(**{column: value}), made.row()])
    assert first[column] is None
    assert first["unread"] == {column: text}
    assert second["unread"] is None
    if column == "action_probability":
        (third,) = read([made.row(action_probability=None, propensity=value)])
        assert third["unread"] == {column: text}


def test_keys_of_parquet_maps_that_are_no_integers_are_noted():
    rows = table([made.row(), made.row(state_features={"1.5": 1})])
    first, second = read(rows)
    assert first["unread"] is None
    assert second["unread"] == {"state_features": '{"1.5":1.0}'}


def test_whole_numbers_as_floats_are_read_and_fractions_are_noted():
    rows = table([made.row(), made.row()])
    index = rows.schema.get_field_index("sequence_number")
    floats = pyarrow.array([3.0, 3.5])
    first, second = read(rows.set_column(index, "sequence_number", floats))
    assert first["sequence_number"] == 3
    assert second["unread"] == {"sequence_number": "3.5"}


def test_a_line_that_is_no_object_is_noted(tmp_path):
    lines = [made.row(), "[1]", "nonsense {", "", made.row(sequence_number=1)]
    found = read(made.write(tmp_path / "a.jsonl", lines))
    assert [each["row"] for each in found] == [1, 2, 3, 4]  # blank lines do not count
    assert [each["unread"] for each in found] == [None, {"": "[1]"}, {"": None}, None]
    assert found[3]["sequence_number"] == 1


def test_extra_columns_are_kept_and_others_are_listed():
    rows = [made.row(price=3, shop="a"), made.row()]
    with open_rows(rows, extra_columns=["price"]) as found:
        assert found.unknown_columns == ("shop",)
        assert found.find_schema().extra_columns == ("price",)
        prices = found.fetch("SELECT price FROM rows ORDER BY row")
    assert prices == [("3",), (None,)]
    with open_rows(rows, schema=Schema(extra_columns=("shop",))) as found:
        assert found.unknown_columns == ("price",)


def test_an_extra_column_cannot_have_the_name_of_another():
    for name in ("reward", "file"):
        with pytest.raises(UserError, match=f"'{name}' has the name of another"):
            open_rows([made.row()], extra_columns=[name])


def test_a_late_unknown_column_of_long_files_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "_SMALL", 0)
    lines = [made.row(sequence_number=k) for k in range(5000)]
    for each in lines[-2000:]:
        each["shop"] = "a"
    path = made.write(tmp_path / "a.jsonl", lines)
    with open_rows(path) as rows:
        assert rows.unknown_columns == ("shop",)


def test_the_schema_lists_what_occurs():
    rows = [
        made.row(action="wait", possible_actions=["wait", "drop"]),
        made.row(action="", possible_actions=[], state_features={"-1": 0, "10": 1}),
        made.row(final_state_features={"77": 1}, final_possible_actions=["end"]),
    ]
    with open_rows(rows) as found:
        assert found.find_schema() == Schema(
            "discrete",
            actions=("drop", "end", "send", "wait"),
            features=(-1, 0, 3, 10, 77),
            metrics=("click", "send_cost"),
        )


def test_actions_that_are_all_numbers_are_sorted_as_numbers():
    names = [str(i) for i in (10, 0, 2, 11, 1, -1)]
    for more, expected in (
        ([], ("-1", "0", "1", "2", "10", "11")),
        (["none"], ("-1", "0", "1", "10", "11", "2", "none")),
    ):
        possible = names + more
        rows = [made.row(action="0", possible_actions=possible)]
        with open_rows(rows) as found:
            assert found.find_schema().actions == expected


def test_the_schema_of_parametric_rows_lists_features_of_all_candidates():
    rows = [made.parametric(possible_actions=[{"100": 0.3, "101": 1}, {"200": 1}])]
    with open_rows(rows, "parametric") as found:
        schema = found.find_schema()
    assert schema.actions == () and schema.action_features == (100, 101, 200)


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path):
    path = made.write(tmp_path / "a.jsonl", [made.row()])
    with open_rows(path) as rows:
        rows.check_unchanged()
        made.write(path, [made.row(), made.row()])
        with pytest.raises(UserError, match=r"a\.jsonl changed while it was read"):
            rows.check_unchanged()
        path.unlink()
        with pytest.raises(UserError, match=r"a\.jsonl was removed while it was read"):
            rows.check_unchanged()


def test_a_file_that_changes_while_it_is_opened_is_an_error(tmp_path, monkeypatch):
    path = made.write(tmp_path / "a.jsonl", [made.row()])
    parse = staging.parse

    def append(*arguments):
        made.write(path, [made.row(), made.row()])
        return parse(*arguments)

    monkeypatch.setattr(staging, "parse", append)
    with pytest.raises(UserError, match=r"a\.jsonl changed while it was read"):
        open_rows(path)


def test_a_parquet_file_that_is_cut_while_it_is_read_is_named(tmp_path):
    path = parquet(tmp_path / "a.parquet", table([made.row()]))
    with open_rows(path) as rows:
        path.write_bytes(path.read_bytes()[:100])
        with pytest.raises(UserError, match=r"a\.parquet changed while it was read"):
            rows.fetch("SELECT count(reward) FROM rows")


def test_closing_removes_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_rows([made.row()]) as rows:
        assert list(tmp_path.iterdir())
    rows.close()
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError):
        open_rows([1])
    assert not list(tmp_path.iterdir())


def bad(path, name, content):
    (path / name).write_bytes(content)
    return path / name


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda path: path / "none.jsonl", "none.jsonl does not exist"),
        (lambda path: path, "has no files of rows"),
        (lambda path: bad(path, "a.npy", b""), r"a\.npy is no file of rows"),
        (lambda path: bad(path, "a.pkl", b""), r"a\.pkl is no file of rows"),
        (lambda path: bad(path, "a.pt.gz", b""), r"a\.pt\.gz is no file of rows"),
        (
            lambda path: bad(path, "a.parquet", b"PAR"),
            r"rows cannot be read: .*a\.parq",
        ),
        (lambda path: bad(path, "a.jsonl.gz", b"x"), "rows cannot be read: .*GZIP"),
        (lambda path: 3, "rows cannot be read from 3; expected a path"),
        (lambda path: {"a": 1}, "rows cannot be read from {'a': 1}"),
        (lambda path: [made.row(), [1]], r"a row is \[1\]; expected a dict"),
        (lambda path: [made.row(reward=1j)], "cannot be written as JSON: complex"),
        (
            lambda path: "minari:D4RL/x-v0",
            r"extra hdf5 .*; pip install 'minari\[hdf5\]'$",
        ),
    ],
)
def test_data_that_cannot_be_read_is_one_line(data, message, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(UserError, match=message) as caught:
        open_rows(data(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_column_of_a_type_without_a_reading_is_an_error():
    rows = table([made.row(action=None)])
    features = rows.append_column("action", pyarrow.array([[("1", 2.0)]], FEATURES))
    with pytest.raises(UserError, match=r"action has the type MAP.*mode='parametric'"):
        open_rows(features)
    times = pyarrow.array([datetime.datetime(2026, 1, 1)])
    rows = rows.drop_columns(["sequence_number"])
    with pytest.raises(UserError, match="sequence_number has the type TIMESTAMP"):
        open_rows(rows.append_column("sequence_number", times))


def test_a_missing_package_is_one_line(monkeypatch):
    for name in [x for x in sys.modules if x.startswith("tfagents_batch.offline")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UserError, match=r'pip install "tfagents_batch\[offline\]"'):
        import tfagents_batch.offline.reader  # noqa: F401
