import datetime
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.training.log.logger import read_metrics
from tfagents_batch.training.run_folder import files, runs

NOW = datetime.datetime(2026, 11, 21, 9, 8, 7, tzinfo=datetime.UTC)


def create(logdir, name="ppo", seed=1, config="{}"):
    return runs.create(logdir, name, seed, config, NOW)


def test_folder_name_has_time_name_and_seed(tmp_path):
    folder = create(tmp_path / "new" / "logs", "cartpole", 7)
    assert folder == tmp_path / "new" / "logs" / "20261121T090807-cartpole-s7"


@pytest.mark.parametrize(
    "name, clean",
    [
        ("batch_ppo/pendulum", "batch_ppo-pendulum"),
        ("ALE/Pong-v5", "ALE-Pong-v5"),
        ("module:Id-v1", "module-Id-v1"),
        ("../../etc", "etc"),
        ("a b\0c", "a-b-c"),
        ("///", "run"),
        ("", "run"),
        ("x" * 300, "x" * 100),
    ],
)
def test_any_name_makes_one_folder_inside_logdir(tmp_path, name, clean):
    folder = create(tmp_path, name)
    assert folder.parent == tmp_path
    assert folder.name == f"20261121T090807-{clean}-s1"


def test_taken_names_get_a_number_and_nothing_is_overwritten(tmp_path):
    first = create(tmp_path, config='{"a": 1}')
    names = [create(tmp_path).name for _ in range(2)]
    assert names == [f"{first.name}-2", f"{first.name}-3"]
    assert runs.open_run(first).config_text == '{"a": 1}'


def test_runs_created_at_once_get_different_folders(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: create(tmp_path), range(24)))
    assert len({*folders}) == 24


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = create("~/logs")
    assert folder.parent == tmp_path / "logs"
    assert runs.open_run(f"~/logs/{folder.name}").folder == folder


def test_run_json_holds_versions_but_nothing_private(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    text = (create(tmp_path) / "run.json").read_text()
    facts = json.loads(text)
    expected = {"tfagents_batch", "python", "tensorflow", "keras", "gymnasium", "numpy"}
    assert {*facts["versions"]} == expected
    assert all(facts["versions"].values())
    assert facts["started"] == NOW.isoformat()
    assert facts["cpus"] == os.cpu_count()
    assert "hunter2" not in text
    assert str(tmp_path) not in text
    assert sys.prefix not in text


def test_a_logdir_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "logs").write_text("")
    with pytest.raises(UserError, match="cannot create the folder"):
        create(tmp_path / "logs")


def test_a_run_that_cannot_be_written_leaves_no_folder(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SaveError, match=r"run.json.* cannot be written: No space left"):
        create(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_a_killed_process_with_the_same_id_left_is_no_obstacle(tmp_path):
    (tmp_path / f"config.json.tmp-{os.getpid()}").write_text("half")
    files.write_atomic(tmp_path / "config.json", "whole")
    assert [x.name for x in tmp_path.iterdir()] == ["config.json"]
    assert (tmp_path / "config.json").read_text() == "whole"


@pytest.mark.parametrize("text", ["[]", "3", "null", "{", None])
def test_missing_or_damaged_facts_are_empty(tmp_path, text):
    folder = create(tmp_path)
    (folder / "run.json").unlink()
    if text is not None:
        (folder / "run.json").write_text(text)
    assert runs.facts(folder) == {}


def test_a_run_opens_after_it_was_moved_and_by_relative_path(tmp_path, monkeypatch):
    folder = create(tmp_path / "a", config='{"x": 1}')
    moved = tmp_path / "b" / "my run"
    moved.parent.mkdir()
    folder.rename(moved)
    monkeypatch.chdir(moved.parent)
    run = runs.open_run("my run")
    assert run == (moved, '{"x": 1}')
    assert runs.open_run(moved / ".." / "my run").config_text == '{"x": 1}'


def test_a_logdir_or_a_mistyped_run_suggests_the_newest(tmp_path):
    now = NOW
    for name in ("zebra", "apple"):
        now += datetime.timedelta(days=1)
        newest = runs.create(tmp_path, name, 1, "{}", now)
    for path, wrong in ((tmp_path, "is not a run"), (tmp_path / "x", "does not exist")):
        with pytest.raises(UserError, match=f"{wrong}.*the newest one there, ") as info:
            runs.open_run(path)
        assert str(info.value).endswith(str(newest))


def test_a_path_inside_a_run_suggests_the_run(tmp_path):
    folder = create(tmp_path)
    (folder / "checkpoints" / "step-000000000001").mkdir(parents=True)
    for inside in ("checkpoints", "checkpoints/step-000000000001", "config.json"):
        with pytest.raises(UserError, match="is inside a run") as info:
            runs.open_run(folder / inside)
        assert str(info.value).endswith(str(folder))


@pytest.mark.parametrize("name", ["run.json", "config.json", "metrics.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "device", "link", "large"])
def test_only_regular_files_of_a_bounded_size_are_read(tmp_path, name, kind):
    folder = create(tmp_path)
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "large":
        with open(path, "wb") as file:
            file.truncate(1 << 40)  # no bytes on the disk
    else:
        path.symlink_to("/dev/zero" if kind == "device" else create(tmp_path) / name)
    if name == "run.json":
        assert runs.facts(folder) == {}
    else:
        with pytest.raises(UserError):
            runs.open_run(folder) if name == "config.json" else read_metrics(folder)


def test_a_path_that_is_not_a_run_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    damaged = create(tmp_path / "logs")
    (damaged / "config.json").write_text("[1]")
    torn = create(tmp_path / "logs")
    (torn / "config.json").write_bytes(b'{"a": "\xff')
    for path, text in {
        tmp_path / "file": "is a file",
        tmp_path / "empty": "is not a run folder",
        tmp_path / "missing": "does not exist",
        damaged: "expected one JSON object",
        torn: "cannot be read",
    }.items():
        with pytest.raises(UserError, match=text) as info:
            runs.open_run(path)
        assert "\n" not in str(info.value)


def test_a_second_lock_names_the_process_that_holds_the_first(tmp_path):
    folder = create(tmp_path)
    with (
        runs.lock(folder),
        pytest.raises(UserError, match=f"in use by process {os.getpid()} on"),
        runs.lock(folder),
    ):
        pass
    with runs.lock(folder):  # free again
        pass
    assert (folder / "run.lock").read_text() == ""


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    folder = create(tmp_path)
    code = (
        "import sys; from tfagents_batch.training.run_folder import runs\n"
        "with runs.lock(sys.argv[1]): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            with (
                pytest.raises(UserError, match=f"process {holder.pid} on"),
                runs.lock(folder),
            ):
                pass
        finally:
            holder.send_signal(signal.SIGKILL)
            holder.wait(timeout=20)
    with runs.lock(folder):
        assert json.loads((folder / "run.lock").read_text())["pid"] == os.getpid()


def test_locking_without_a_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="cannot be locked"), runs.lock(tmp_path / "no"):
        pass
