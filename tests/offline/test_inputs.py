"""Nothing that looks like rows is left out without a word."""

import os
import shutil

import pyarrow
import pytest
from pyarrow import parquet

from tests.offline import made, timelines
from tfagents_batch.errors import UserError
from tfagents_batch.offline import table_reader
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.reading import files
from tfagents_batch.scripts import features as features_script


def write(path, length=2, without=(), **changes):
    """Write the rows of an episode to a Parquet file or, by its name, as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = made.episode(length, path.stem, **changes)
    if path.suffix == ".jsonl":
        return made.write(path, rows)
    kept = [row | {"terminated": row.get("terminated", False)} for row in rows]
    kept = [{k: x for k, x in row.items() if k not in without} for row in kept]
    parquet.write_table(pyarrow.Table.from_pylist(kept), path)
    return path


def refused(data, text):
    with pytest.raises(UserError, match=text) as error:
        open_rows(data)
    assert "\n" not in str(error.value)


def count(data):
    with open_rows(data) as rows:
        return rows.fetch("SELECT count(*) FROM rows")[0][0]


@pytest.mark.parametrize("data", ["", "*", "*.parquet", "b.parquet", "**/*.parquet"])
def test_a_link_to_nothing_is_refused(tmp_path, data):
    write(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").symlink_to(tmp_path / "moved.parquet")
    refused(str(tmp_path / data), r"b\.parquet is a link to .*moved\.parquet, which")


def test_a_link_to_nothing_in_a_list_is_refused(tmp_path):
    (tmp_path / "b.parquet").symlink_to("moved.parquet")
    refused([write(tmp_path / "a.parquet"), tmp_path / "b.parquet"], "is a link to")


def test_a_link_to_a_folder_that_is_gone_is_refused(tmp_path):
    write(tmp_path / "ds=1/a.parquet")
    (tmp_path / "ds=2").symlink_to(tmp_path / "unmounted")
    refused(tmp_path, r"ds=2 is a link to .*unmounted, which does not exist")


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_brackets_of_a_path_that_exists_are_no_glob(tmp_path, name):
    write(tmp_path / "logs1" / name, length=5)
    path = write(tmp_path / "logs[1]" / name)
    assert [count(x) for x in (path, path.parent, str(path), [path])] == [2] * 4
    timelines.build(tmp_path / "table1", path.parent)
    table = timelines.build(tmp_path / "table[1]", path.parent)
    shutil.rmtree(tmp_path / "table1")
    opened = table_reader.partition(table)
    assert opened.rows == len(table_reader.read(opened)["reward"]) == 2
    assert table_reader.facts(opened, "count(*)") == (2,)


def test_a_pipe_among_files_is_refused(tmp_path):
    write(tmp_path / "a.jsonl")
    os.mkfifo(tmp_path / "b.jsonl")
    refused(tmp_path, r"b\.jsonl is no regular file")


def test_linked_folders_are_read_once(tmp_path):
    write(tmp_path / "elsewhere/a.jsonl", ds=None)
    logs = tmp_path / "logs"
    write(logs / "ds=2/b.jsonl", ds=None)
    (logs / "ds=1").symlink_to(tmp_path / "elsewhere")
    (logs / "a-newest").symlink_to(logs / "ds=2")  # has been read by its own name
    (logs / "ds=2/again").symlink_to(logs)
    with open_rows(logs) as rows:
        found = rows.fetch("SELECT ds, count(*) FROM rows GROUP BY ds ORDER BY ds")
    assert found == [("1", 2), ("2", 2)]


def test_folders_of_a_glob_are_read(tmp_path):
    for name in ("ds=1", "ds=2", "ds=3"):
        write(tmp_path / name / "a.jsonl")
    write(tmp_path / "_hidden/a.jsonl")
    write(tmp_path / "b.jsonl")
    assert count(f"{tmp_path}/ds=[12]") == 4
    assert count(f"{tmp_path}/*") == 8


def test_a_folder_that_cannot_be_listed_is_refused(tmp_path, monkeypatch):
    write(tmp_path / "a.jsonl")
    write(tmp_path / "closed/b.jsonl")

    def scan(path, actual=os.scandir):
        if "closed" in os.fspath(path):
            raise PermissionError(13, "Permission denied", path)
        return actual(path)

    monkeypatch.setattr(os, "scandir", scan)
    refused(tmp_path, "closed cannot be read: Permission denied")


@pytest.mark.parametrize("name", ["b.jsonl.1", "b.jsonl.bz2", "b.csv", "sub/README"])
def test_files_of_other_kinds_are_listed(tmp_path, name):
    path = write(tmp_path / "a.jsonl")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("text")
    with open_rows(tmp_path) as rows:
        (notice,) = rows.notices
    assert (
        notice == f"no files of rows, which are left out: 1, such as {tmp_path / name}"
    )
    with open_rows(path) as rows:
        assert not rows.notices


def test_the_search_for_features_says_what_is_left_out(tmp_path, capsys):
    write(tmp_path / "a.jsonl", 30)
    (tmp_path / "b.jsonl.1").touch()
    features_script.main([f"--input={tmp_path}", f"--report={tmp_path}/page.html"])
    assert "b.jsonl.1" in capsys.readouterr().err


@pytest.mark.parametrize("column", ["terminated", "truncated"])
def test_a_file_without_the_flags_of_others_is_refused(tmp_path, column):
    for name in "abc":
        write(tmp_path / f"{name}.parquet", truncated=False)
    write(tmp_path / "d.parquet", truncated=False, without=[column])
    text = rf"1 of 4 Parquet files, such as .*d\.parquet, has no column {column}"
    with pytest.raises(UserError, match=text):
        open_rows(tmp_path)
    (tmp_path / "d.parquet").unlink()
    assert count(tmp_path) == 6


@pytest.mark.parametrize(
    "column", ["metrics", "action_probability", "possible_actions", "extra"]
)
def test_a_file_without_another_column_is_said(tmp_path, column):
    write(tmp_path / "a.parquet", extra=1)
    write(tmp_path / "b.parquet", extra=1, without=[column])
    with open_rows(tmp_path, extra_columns=["extra"]) as rows:
        (notice,) = rows.notices
    assert notice.startswith(f"column {column} is missing in 1 of 2 Parquet files")
    assert notice.endswith(f"such as {tmp_path / 'b.parquet'}; it is NULL there")


def test_an_old_name_of_a_column_is_no_missing_one(tmp_path):
    write(tmp_path / "a.parquet")
    changes = {"propensity": 0.5, "action_probability": None}
    write(tmp_path / "b.parquet", **changes)
    with open_rows(tmp_path) as rows:
        assert not [x for x in rows.notices if "missing in" in x]


def test_lines_may_leave_out_flags(tmp_path):
    """A file of lines in which no episode ends has none."""
    made.write(tmp_path / "a.jsonl", made.episode(2))
    made.write(tmp_path / "b.jsonl", made.episode(2, "u8")[:1])
    assert count(tmp_path) == 3


@pytest.mark.parametrize("column", ["terminated", "truncated"])
@pytest.mark.parametrize("tables", ["b", "bc"])
def test_tables_without_the_flags_of_lines_are_refused(tmp_path, column, tables):
    for name in tables:
        write(tmp_path / f"{name}.parquet", without=[column])
    lines = made.write(tmp_path / "a.jsonl", made.episode(2, "u8")[:1])
    made.write(tmp_path / "d.jsonl", made.episode(2, "u9")[:1])
    assert count(tmp_path) == 2 * len(tables) + 2
    made.write(lines, made.episode(1, "u8", **{column: False}))
    text = (
        rf"{len(tables)} of {len(tables)} Parquet files, such as .*b\.parquet, has no "
        rf"column {column}, which rows of JSON have"
    )
    with pytest.raises(UserError, match=text):
        open_rows(tmp_path)


def test_the_files_of_a_folder_do_not_depend_on_its_hidden_ones(tmp_path):
    write(tmp_path / ".cache/a.jsonl")
    (tmp_path / "_link.jsonl").symlink_to(tmp_path / "gone")
    path = write(tmp_path / "b.jsonl")
    assert files.find(tmp_path) == [path] and files.notices(tmp_path) == []


def _lists(path, presence=True, values=(1.0, 0.0)):
    """Write an episode whose features are lists of numbers, perhaps with flags."""
    rows = made.episode(2, path.stem, terminated=False)
    for row in rows:
        row["state_features"] = values
        if presence:
            row["state_features_presence"] = [True, False]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def test_a_file_of_lists_without_the_flags_of_others_is_refused(tmp_path):
    """Its fillers for missing features would count as values."""
    _lists(tmp_path / "a.parquet")
    _lists(tmp_path / "b.parquet", presence=False)
    text = r"1 of 2 Parquet files, such as .*b\.parquet, has no .*_features_presence"
    with pytest.raises(UserError, match=text):
        open_rows(tmp_path)
    for name in "ab":
        assert count(tmp_path / f"{name}.parquet") == 2


def test_a_file_of_maps_needs_no_flags(tmp_path):
    _lists(tmp_path / "a.parquet")
    _lists(tmp_path / "b.parquet", presence=False, values={"0": 1.0})
    write(tmp_path / "c.parquet", without=["state_features"])
    assert count(tmp_path) == 6
