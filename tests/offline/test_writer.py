import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.offline import made
from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.offline import line_files
from tfagents_batch.offline.reader import open_rows
from tfagents_batch.offline.writer import RowLogger


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def logged(folder):
    """Return the sequence numbers in the complete files."""
    lines = [
        line
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    return sorted(json.loads(line)["sequence_number"] for line in lines)


def numbered(count, start=0):
    return [made.row(sequence_number=k) for k in range(start, start + count)]


def test_logged_rows_are_read_as_they_were(tmp_path):
    with RowLogger(tmp_path / "new") as logger:
        logger.log(made.row(terminated=None))
        logger.log(made.row(state_features=np.float32([1, 2]), sequence_number=1))
    with open_rows(tmp_path / "new") as rows:
        assert rows.fetch("SELECT state_features, reward FROM rows ORDER BY row") == [
            ({0: 0.12, 3: 7.0}, 1.5),
            ({0: 1.0, 1: 2.0}, 1.5),
        ]
        assert rows.fetch("SELECT count(unread) FROM rows") == [(0,)]


def test_a_file_is_hidden_until_it_is_complete(tmp_path):
    logger = RowLogger(tmp_path)
    assert names(tmp_path) == []  # a logger without rows leaves no file
    logger.log(made.row())
    (part,) = names(tmp_path)
    assert part.startswith(".rows-") and part.endswith(".jsonl.part")
    with pytest.raises(UserError, match="has no files of rows"):
        open_rows(tmp_path)
    logger.rotate()
    (name,) = names(tmp_path)
    assert name == part.removeprefix(".").removesuffix(".part")
    logger.log(made.row())
    logger.close()
    logger.close()
    assert len(names(tmp_path)) == 2


def test_files_rotate_by_rows_and_by_bytes(tmp_path):
    with RowLogger(tmp_path, rows_per_file=2, prefix="a") as logger:
        for row in numbered(5):
            logger.log(row)
    assert len(names(tmp_path)) == 3 and logged(tmp_path) == [0, 1, 2, 3, 4]
    with RowLogger(tmp_path, bytes_per_file=1, prefix="b") as logger:
        logger.log(*numbered(3))
        logger.log(made.row())
    assert len(list(tmp_path.glob("b-*.jsonl"))) == 2  # a call goes to one file


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"rewards": 1}, "unknown column 'rewards'; did you mean 'reward'"),
        ({"reward": None}, "a row lacks reward; every row needs it"),
        ({"reward": float("nan")}, "cannot be written as JSON.*nan"),
        ({"state_features": {0: np.float32("inf")}}, "cannot be written as JSON"),
        ({"action": object()}, "object is no type of JSON"),
    ],
)
def test_a_bad_row_is_refused_and_nothing_of_its_call_is_written(
    row, message, tmp_path
):
    with RowLogger(tmp_path) as logger:
        logger.log(made.row())
        with pytest.raises(UserError, match=message):
            logger.log(made.row(sequence_number=1), made.row() | row)
        logger.log(made.row(sequence_number=2))
    assert logged(tmp_path) == [0, 2]


def test_a_row_must_be_a_mapping(tmp_path):
    with RowLogger(tmp_path) as logger, pytest.raises(UserError, match="a row is 3"):
        logger.log(3)


def test_extra_columns_and_other_modes_are_written(tmp_path):
    with RowLogger(tmp_path, "continuous", extra_columns=["price"]) as logger:
        logger.log(made.continuous(price=2, action=np.array([0.5])))
    with open_rows(tmp_path, "continuous", extra_columns=["price"]) as rows:
        assert rows.fetch("SELECT action, price FROM rows") == [({0: 0.5}, "2")]


def test_several_threads_write_whole_lines(tmp_path):
    with RowLogger(tmp_path, rows_per_file=7) as logger:
        threads = [
            threading.Thread(
                target=lambda k=k: [logger.log(x) for x in numbered(50, k)]
            )
            for k in (0, 50, 100)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert logged(tmp_path) == list(range(150))


KILLED = """
import os, signal, sys
from tests.offline import made
from tfagents_batch.offline.writer import RowLogger

logger = RowLogger(sys.argv[1], rows_per_file=10)
write = os.write
if sys.argv[2] == "torn":
    def torn(descriptor, text):
        if b'"sequence_number":14,' in text:
            write(descriptor, text[:40])
            os.kill(os.getpid(), signal.SIGKILL)
        return write(descriptor, text)
    os.write = torn
for k in range(16):
    logger.log(made.row(sequence_number=k))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("how", "count"), [("whole", 16), ("torn", 14)])
def test_rows_of_a_killed_process_are_recovered_by_the_next_logger(
    how, count, tmp_path
):
    command = [sys.executable, "-c", KILLED, str(tmp_path), how]
    status = subprocess.run(command, timeout=120, cwd=os.getcwd()).returncode
    assert status == -signal.SIGKILL
    assert logged(tmp_path) == list(range(10))  # the complete file
    with RowLogger(tmp_path) as logger:
        assert logger.recovered == count - 10
    assert logged(tmp_path) == list(range(count))
    assert not list(tmp_path.glob(".*"))
    with RowLogger(tmp_path) as logger:
        assert logger.recovered == 0


def test_a_file_of_a_living_logger_is_not_recovered(tmp_path):
    with RowLogger(tmp_path) as first:
        first.log(made.row())
        with RowLogger(tmp_path) as second:
            assert second.recovered == 0
            second.log(made.row(sequence_number=1))
        first.log(made.row(sequence_number=2))
    assert logged(tmp_path) == [0, 1, 2]


def test_a_new_file_that_was_taken_for_an_abandoned_one_is_replaced(
    tmp_path, monkeypatch
):
    logger = RowLogger(tmp_path)
    lock, taken = line_files.locks.lock, []

    def steal(descriptor, wait=False):
        if not taken:
            (part,) = tmp_path.iterdir()
            taken.append(part)
            part.unlink()
        lock(descriptor, wait)

    monkeypatch.setattr(line_files.locks, "lock", steal)
    logger.log(made.row())
    logger.close()
    assert logged(tmp_path) == [0]


def test_an_empty_file_that_was_left_behind_is_removed(tmp_path):
    (tmp_path / ".rows-x.jsonl.part").write_bytes(b'{"half')
    assert RowLogger(tmp_path).recovered == 0
    assert names(tmp_path) == []


def test_a_full_disk_is_an_error_and_earlier_rows_stay(tmp_path, monkeypatch):
    with RowLogger(tmp_path) as logger:
        logger.log(made.row())
        write = os.write

        def full(descriptor, text):
            write(descriptor, text[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "write", full)
        text = r"No space left on device; expected a folder .* Rows of earlier"
        with pytest.raises(SaveError, match=text):
            logger.log(made.row(sequence_number=1))
        monkeypatch.setattr(os, "write", write)
        logger.log(made.row(sequence_number=2))
    assert logged(tmp_path) == [0, 2]


@pytest.mark.parametrize("kind", ["removed", "moved", "its parent"])
def test_a_folder_that_is_gone_between_two_files_is_made_again(tmp_path, kind):
    folder = tmp_path / "a/log"
    with RowLogger(folder) as logger:
        logger.log(made.row())
        logger.rotate()
        if kind == "moved":
            folder.rename(tmp_path / "before")
        else:
            shutil.rmtree(folder if kind == "removed" else folder.parent)
        logger.log(made.row(sequence_number=1))
    assert logged(folder) == [1]


def test_a_folder_that_is_gone_before_the_first_row_is_made_again(tmp_path):
    with RowLogger(tmp_path / "log") as logger:
        (tmp_path / "log").rmdir()
        logger.log(made.row())
    assert logged(tmp_path / "log") == [0]


def test_a_closed_logger_refuses_rows(tmp_path):
    logger = RowLogger(tmp_path)
    logger.close()
    with pytest.raises(UserError, match="the logger is closed"):
        logger.log(made.row())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows_per_file": 0}, "rows_per_file is 0"),
        ({"prefix": ".a"}, "prefix is '.a'"),
        ({"prefix": "a/b"}, "prefix is 'a/b'"),
    ],
)
def test_a_bad_argument_is_an_error(arguments, message, tmp_path):
    with pytest.raises(UserError, match=message):
        RowLogger(tmp_path, **arguments)


def test_a_folder_that_cannot_be_made_is_a_save_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SaveError, match="rows cannot be written to"):
        RowLogger(tmp_path / "file")
