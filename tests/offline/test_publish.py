"""Tests that a partition is replaced as a whole, whenever the process is killed."""

import pathlib
import signal
import subprocess
import sys

import pytest

from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.offline import publish

ROOT = pathlib.Path(__file__).parents[2]
FILES = {"part-0.parquet", "_manifest.json"}


def anything(target):
    """Let any folder be replaced."""


def fill(folder, text):
    for name in FILES:
        (folder / name).write_text(text)


def contents(folder):
    return {path.read_text() for path in folder.iterdir()}


def test_a_partition_appears_at_the_end_of_the_block(tmp_path):
    target = publish.partition(tmp_path / "table", "2026-01-01")
    with publish.staging(target, anything) as staged:
        fill(staged, "new")
        assert not target.exists()
    assert target.name == "ds=2026-01-01"
    assert contents(target) == {"new"}
    assert {x.name for x in target.parent.iterdir()} == {".lock", target.name}


def test_an_error_leaves_the_old_partition(tmp_path):
    target = publish.partition(tmp_path, "1")
    with publish.staging(target, anything) as staged:
        fill(staged, "old")
    with pytest.raises(KeyError), publish.staging(target, anything) as staged:
        fill(staged, "new")
        raise KeyError
    assert contents(target) == {"old"}
    assert {x.name for x in tmp_path.iterdir()} == {".lock", target.name}


def test_an_error_of_saving_is_said_once(tmp_path):
    with (
        pytest.raises(SaveError, match=r"^rows cannot be written$"),
        publish.folder(tmp_path / "a", anything),
    ):
        raise SaveError("rows cannot be written")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "name",
    [
        ".ds=2026-01-01",
        ".ds=2026-01-01-old",
        ".ds=2026-01-01-4711",
        "ds=2025-12-31",
        ".lock",
        "notes.txt",
    ],
)
def test_what_others_put_into_a_table_stays(tmp_path, name):
    mine = tmp_path / name
    if name.startswith((".ds", "ds")):
        mine.mkdir()
        mine = mine / "rows.jsonl"
    mine.write_text("mine")
    for number in (1, 2):
        with publish.staging(tmp_path / f"ds={number}", anything) as staged:
            fill(staged, "new")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("write", [publish.folder, publish.staging])
def test_what_is_replaced_is_checked_when_it_is_replaced(tmp_path, write):
    """What others put there while a folder is being written stays."""

    def check(target):
        publish.check_only(target, FILES, "test", "_manifest.json")

    for text in ("old", "new"):
        with write(tmp_path / "ds=1", check) as staged:
            fill(staged, text)
    assert contents(tmp_path / "ds=1") == {"new"}
    with (
        pytest.raises(UserError, match=r"ds=1 has rows\.jsonl, which no test wrote"),
        write(tmp_path / "ds=1", check) as staged,
    ):
        fill(staged, "newer")
        (tmp_path / "ds=1/rows.jsonl").write_text("new")
    assert len([*(tmp_path / "ds=1").iterdir()]) == 3
    assert contents(tmp_path / "ds=1") == {"new"}
    assert not [*tmp_path.glob(".ds=*")]


def test_two_processes_write_beside_each_other(tmp_path):
    with publish.folder(tmp_path / "a", anything) as one:
        with publish.folder(tmp_path / "a", anything) as other:
            fill(other, "other")
        fill(one, "one")  # the second one did not remove it
    assert contents(tmp_path / "a") == {"one"}
    assert [x.name for x in tmp_path.iterdir()] == ["a"]


def test_a_folder_of_the_present_one_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    with publish.folder(pathlib.Path("."), anything) as staged:
        fill(staged, "new")
    assert contents(tmp_path / "a") == {"new"}


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    publish.file(path, b"old")
    monkeypatch.setattr(publish, "_sync_files", lambda folder: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        publish.file(path, b"new")
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_a_link_to_a_file_stays_a_link(tmp_path):
    path, link = tmp_path / "a", tmp_path / "b"
    path.write_text("old")
    link.symlink_to(path)
    publish.file(link, b"new")
    assert link.is_symlink() and path.read_text() == "new"


def test_a_device_is_written_to():
    publish.file(pathlib.Path("/dev/null"), b"new")
    assert not pathlib.Path("/dev/null").is_file()


def test_a_file_that_cannot_be_written_is_a_save_error(tmp_path):
    with pytest.raises(SaveError, match=r"a/b cannot be written: No such file"):
        publish.file(tmp_path / "a" / "b", b"")


def test_a_second_writer_is_refused(tmp_path):
    with publish.staging(tmp_path / "ds=1", anything) as staged:
        fill(staged, "first")
        with (
            pytest.raises(UserError, match="another process is writing to"),
            publish.staging(tmp_path / "ds=2", anything),
        ):
            pass
    assert contents(tmp_path / "ds=1") == {"first"}


def test_the_name_of_a_partition_stays_in_its_table(tmp_path):
    assert publish.partition(tmp_path, "../a/b").parent == tmp_path


# The process kills itself in the call whose number is given: of the functions that
# change the disk while a partition is replaced.
KILLED = """if True:
    import os, pathlib, shutil, signal, sys
    from tfagents_batch.offline import publish

    output, kill_at, swaps = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
    write = getattr(publish, sys.argv[4])
    if not swaps:
        publish._swap = lambda one, other: False
    calls = 0

    def killing(work):
        def call(*arguments, **options):
            global calls
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return work(*arguments, **options)
        return call

    pathlib.Path.rename = killing(pathlib.Path.rename)
    shutil.rmtree = killing(shutil.rmtree)
    os.fsync = killing(os.fsync)
    publish._swap = killing(publish._swap)
    with write(pathlib.Path(output) / "ds=1", lambda target: None) as staged:
        (staged / "new").touch()
        for name in ("part-0.parquet", "_manifest.json"):
            (staged / name).write_text("new")
    print(calls)
"""


def run(output, kill_at, swaps, write):
    return subprocess.run(
        [sys.executable, "-c", KILLED, str(output), str(kill_at), str(swaps), write],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )


@pytest.mark.parametrize("write", ["staging", "folder"])
@pytest.mark.parametrize("swaps", [True, False])
def test_a_process_killed_at_any_point_leaves_a_whole_folder(tmp_path, swaps, write):
    def start(name):
        with publish.staging(tmp_path / name / "ds=1", anything) as staged:
            (staged / "old").touch()
            fill(staged, "old")
        return tmp_path / name

    calls = int(run(start("counted"), 0, swaps, write).stdout)
    assert calls >= 7
    # Any partition repairs its table, and a folder is repaired by the same one.
    again = "ds=2" if write == "staging" else "ds=1"
    seen = set()
    for number in range(1, calls + 1):
        output = start(f"{number}")
        assert run(output, number, swaps, write).returncode == -signal.SIGKILL
        if swaps:  # readers need no repair
            assert whole(output / "ds=1") in ("old", "new")
        with pytest.raises(KeyError), getattr(publish, write)(output / again, anything):
            raise KeyError  # the next writer repairs, even if it fails
        seen.add(whole(output / "ds=1"))
        assert {x.name for x in output.iterdir()} == {".lock", "ds=1"}
    assert seen == {"old", "new"}


def whole(folder):
    """Return the text of a partition that has all files of one writer."""
    names, (text,) = {path.name for path in folder.iterdir()}, contents(folder) - {""}
    assert names == {text, *FILES}
    return text
