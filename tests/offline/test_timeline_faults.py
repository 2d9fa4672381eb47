"""Failures while a timeline is made: the table stays as it was."""

import pathlib
import signal
import subprocess
import sys

import pytest

from tests.offline import made
from tests.support import logged
from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.offline import manifest, reader, timeline
from tfagents_batch.offline.schema import Schema
from tfagents_batch.offline.timeline_config import TimelineConfig

ROOT = pathlib.Path(__file__).parents[2]
KILLED = """if True:
    import os, signal, sys
    from tests.offline import made
    from tests.support import logged
    from tfagents_batch.offline import publish, timeline

    module, name = sys.argv[2].rsplit(".", 1)
    kill = lambda *arguments, **options: os.kill(os.getpid(), signal.SIGKILL)
    setattr({"publish": publish, "work": timeline._Work}[module], name, kill)
    logged.build(made.episode(9), sys.argv[1])
"""


@pytest.mark.parametrize("where", ["work.summary", "publish.replace"])
def test_a_killed_timeline_leaves_the_old_partition(tmp_path, where):
    summary, before = logged.build(made.episode(3), tmp_path)
    command = [sys.executable, "-c", KILLED, str(tmp_path), where]
    done = subprocess.run(command, cwd=ROOT, timeout=60, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (left,) = tmp_path.glob(".ds=*")
    assert list(left.glob("part-*.parquet"))  # it was killed after it wrote samples
    assert logged.samples(summary.folder) == before
    assert manifest.read(summary.folder)["rows"] == 3
    _, after = logged.build(made.episode(9), tmp_path)
    assert len(after) == 9
    assert not list(tmp_path.glob(".ds=*"))


def test_a_file_that_changes_meanwhile_publishes_nothing(tmp_path):
    path = made.write(tmp_path / "rows.jsonl", made.episode(3))

    def tell(part, text):
        if text == "writing samples":
            made.write(path, made.episode(4))

    with (
        reader.open_rows(path) as rows,
        pytest.raises(UserError, match=r"rows.jsonl changed while it was read"),
    ):
        found = rows.find_schema()
        timeline.build(rows, found, TimelineConfig(), tmp_path / "table", tell)
    assert not list(tmp_path.glob("table/*ds=*"))


@pytest.mark.parametrize("earlier", [True, False])
def test_a_file_that_comes_into_the_partition_meanwhile_stays(tmp_path, earlier):
    found = made.episode(3)
    mine = tmp_path / f"ds={found[0]['ds']}" / "mine.jsonl"
    if earlier:
        logged.build(found, tmp_path)

    def tell(part, text):
        if text == "publishing" and part < 1:
            mine.parent.mkdir(exist_ok=True)
            mine.write_text("mine")

    with (
        reader.open_rows(found) as rows,
        pytest.raises(UserError, match=r"mine\.jsonl, which no|would be lost"),
    ):
        settings = TimelineConfig(gamma=0.5)  # as before
        timeline.build(rows, rows.find_schema(), settings, tmp_path, tell)
    assert mine.read_text() == "mine"


def test_the_progress_rises_from_0_to_1(tmp_path):
    told = []
    with reader.open_rows(made.episode(50)) as rows:
        timeline.build(
            rows,
            rows.find_schema(),
            TimelineConfig(),
            tmp_path,
            lambda part, text: told.append((part, text)),
        )
    parts = [part for part, _ in told]
    assert parts == sorted(parts)
    assert (parts[0], parts[-1]) == (0, 1)
    texts = ["reading rows", "finding episodes", "writing samples", "publishing"]
    assert list(dict.fromkeys(text for _, text in told)) == texts


def test_an_error_removes_the_tables(tmp_path):
    with reader.open_rows(made.episode(3)) as rows:
        with pytest.raises(UserError, match="none of a"):
            timeline.build(rows, Schema("discrete", ("a",)), TimelineConfig(), tmp_path)
        left = rows.connection.execute("SHOW TABLES").fetchall()
        assert not [name for (name,) in left if name.startswith("timeline")]


def test_a_file_in_the_place_of_the_table_is_refused(tmp_path):
    (tmp_path / "table").touch()
    with pytest.raises(SaveError, match="table cannot be written"):
        logged.build(made.episode(3), tmp_path / "table")


def test_an_extra_column_with_a_name_of_the_timeline_is_refused(tmp_path):
    found = [row | {"step": 1} for row in made.episode(3)]
    with pytest.raises(UserError, match="the extra column 'step' has the name of a"):
        logged.build(found, tmp_path, extra=("step",))


@pytest.mark.parametrize("output", ["logs", "."])
def test_rows_are_not_replaced_by_their_samples(tmp_path, output):
    (tmp_path / "logs/ds=2026-01-01").mkdir(parents=True)
    path = made.write(tmp_path / "logs/ds=2026-01-01/a.jsonl", made.episode(3))
    with pytest.raises(UserError, match=r"holds .*a\.jsonl, which is read"):
        logged.build(str(tmp_path / "logs"), tmp_path / output)
    assert len(path.read_text().splitlines()) == 3
