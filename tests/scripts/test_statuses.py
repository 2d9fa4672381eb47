"""Exit statuses of commands, and files that are written as a whole or not at all."""

import os
import pathlib
import resource
import subprocess
import sys

import pyarrow
import pytest
from pyarrow import parquet

from tests.offline import made
from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.scripts import command_line
from tfagents_batch.training.log import curves

ROOT = pathlib.Path(__file__).parents[2]
SMALL = 64  # bytes, so that the disk looks full


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))


def run(folder, *arguments, limit=None):
    return subprocess.run(
        [sys.executable, "-m", "tfagents_batch", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limit,
    )


def tree(folder):
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in paths if path.name != ".lock"}


def decisions(folder):
    """Write the log of a server, as Parquet, so that nothing is copied to read it."""
    rows = [row | {"request_id": f"{k:032x}"} for k, row in enumerate(made.episode(90))]
    for row in rows:
        row.setdefault("terminated", None)
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "rows.parquet")
    (folder / "_feedback").mkdir()


@pytest.fixture
def work(tmp_path):
    """Return a folder with the output of an earlier run of each command."""
    (tmp_path / "logs").mkdir()
    decisions(tmp_path / "logs")
    for command in WRITERS.values():
        done = run(tmp_path, *command)
        assert done.returncode == 0, done.stderr
    return tmp_path


WRITERS = {
    "join": ["join", "--decisions=logs", "--output=out/rows"],
    "timeline": ["timeline", "--input=logs", "--output=out/table"],
    "rows": ["rows", "--input=logs", "--write_schema=out/schema.json"],
    "features": ["features", "--input=logs", "--output=out/f.json"],
}


def test_a_full_disk_is_status_74_and_keeps_what_there_was(work):
    before = tree(work)
    for name, command in WRITERS.items():
        done = run(work, *command, limit=small_files)
        assert done.returncode == 74, (name, done.stderr)
        (line,) = (x for x in done.stderr.splitlines() if x.startswith("error"))
        assert "cannot be written" in line and "Traceback" not in done.stderr
        assert tree(work) == before


def test_a_full_folder_for_temporary_files_is_status_74(tmp_path):
    path = made.write(tmp_path / "a.jsonl", made.episode(90))  # parsed to a file
    done = run(tmp_path, "rows", f"--input={path}", limit=small_files)
    assert done.returncode == 74, done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: rows cannot be read")


def crash(argv):
    raise KeyError("mine")


def test_an_error_that_nobody_expected_is_no_answer(monkeypatch, capsys):
    """Status 1 of a decision means: do not deploy."""
    monkeypatch.setattr(sys, "argv", ["decide"])
    assert command_line.run(crash) == 70
    assert "KeyError: 'mine'" in capsys.readouterr().err


def test_a_module_that_cannot_be_imported_is_no_answer(tmp_path):
    (tmp_path / "duckdb.py").write_text("raise RuntimeError('broken')")
    code = "import sys; sys.path.insert(0, '.'); sys.argv = ['t', 'decide']; "
    code += "import tfagents_batch.scripts as s; s.__path__.insert(0, '.'); "
    code += "from tfagents_batch.__main__ import main; main()"
    (tmp_path / "decide.py").write_text("import duckdb")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 70 and "RuntimeError: broken" in done.stderr


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OSError(28, "No space left on device"), 74),
        (OSError(30, "Read-only file system"), 74),
        (RuntimeError("RESOURCE_EXHAUSTED: a/b; No space left on device"), 74),
        (UserError("No space left on device is no environment"), 64),
        (FileNotFoundError(2, "No such file or directory"), 70),
    ],
)
def test_a_full_disk_is_found_in_the_errors_of_others(monkeypatch, error, status):
    def fail(argv):
        raise error

    monkeypatch.setattr(sys, "argv", ["train"])
    assert command_line.run(fail) == status


def draw(out):
    with curves.panels(1, 1, (2, 2), str(out)) as axes:
        axes[0, 0].plot([1, 2])


def test_a_figure_is_written_as_a_whole(tmp_path):
    draw(tmp_path / "a.png")
    before = tree(tmp_path)
    with pytest.raises(KeyError), curves.panels(1, 1, (2, 2), tmp_path / "a.png"):
        raise KeyError
    assert tree(tmp_path) == before
    with pytest.raises(SaveError, match=r"none/a\.png cannot be written"):
        draw(tmp_path / "none" / "a.png")
    with pytest.raises(UserError, match=r"ends in \.xyz; expected \.png"):
        draw(tmp_path / "a.xyz")
    draw(tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()
