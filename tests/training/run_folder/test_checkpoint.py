import contextlib
import errno
import hashlib
import itertools
import json
import os
import pathlib
import resource
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.lines import saved
from tfagents_batch.errors import UserError
from tfagents_batch.training.run_folder import checkpoint, files, replay_file

FILES = [
    "manifest.json",
    "state.json",
    "variables.data-00000-of-00001",
    "variables.index",
]


def make(fill=0.0):
    """Return variables of every kind that an agent has, filled with ``fill``."""
    weights = keras.Variable(np.full((3, 2), fill), dtype="float32", name="w")
    return {
        "policy/w": weights,
        "f64": tf.Variable(fill, dtype=tf.float64),
        "counter": tf.Variable(int(fill), dtype=tf.int64),
        "flag": tf.Variable(fill > 0),
        "seed": tf.Variable([int(fill)] * 2, dtype=tf.uint32),
        "half": tf.Variable([fill], dtype=tf.bfloat16),
    }


def as_values(variables):
    return {name: x.numpy().tolist() for name, x in variables.items()}


def save(run, step, fill=None, **kwargs):
    fill = float(step) if fill is None else fill
    return checkpoint.save(run, step, make(fill), {"at": step}, **kwargs)


def load(run, which="newest"):
    """Return the loaded step and the steps of events."""
    events, variables = [], make()
    step, state = checkpoint.load(
        run, variables, which, lambda kind, step, reason: events.append((kind, step))
    )
    assert state["at"] == step
    assert as_values(variables) == as_values(make(float(step)))
    return step, events


def folders(run):
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def test_every_dtype_and_the_state_are_restored_exactly(tmp_path):
    variables = make(7.0)
    variables["policy/w"].assign(np.float32([[0.1, -0.0], [np.inf, 1e-45], [3, 4]]))
    state = {"step": 7, "best": -np.inf, "x": [0.1, None, True], "s": "é"}
    path = checkpoint.save(tmp_path, 7, variables, state)
    assert path.name == "step-000000000007"
    assert sorted(os.listdir(path)) == FILES
    fresh = make()
    step, loaded = checkpoint.load(tmp_path, fresh)
    assert step == 7
    assert loaded == state
    assert as_values(fresh) == as_values(variables)


def test_manifest_is_strict_json_and_describes_the_variables(tmp_path):
    path = save(tmp_path, 5, metadata={"best": True})

    def refuse(constant):
        raise AssertionError(constant)

    manifest = json.loads((path / "manifest.json").read_text(), parse_constant=refuse)
    assert manifest["schema"] == 1
    assert manifest["step"] == 5
    assert manifest["metadata"] == {"best": True}
    assert manifest["versions"]["tensorflow"] == tf.__version__
    assert manifest["variables"]["policy/w"] == {"shape": [3, 2], "dtype": "float32"}
    assert [*manifest["files"]] == FILES[1:]
    for name, entry in manifest["files"].items():
        data = (path / name).read_bytes()
        assert entry["size"] == len(data)
        assert entry["sha256"] == hashlib.sha256(data).hexdigest()
    assert str(tmp_path) not in (path / "manifest.json").read_text()


def test_the_newest_three_the_best_and_marked_ones_stay(tmp_path):
    save(tmp_path, 1, metadata={"keep": True})
    save(tmp_path, 2, metadata={"best": True})
    save(tmp_path, 3, metadata={"best": True, "keep": False})
    for step in range(4, 9):
        save(tmp_path, step, metadata={"best": False})
    assert [*saved(tmp_path)] == [1, 3, 6, 7, 8]
    assert load(tmp_path, "best") == (3, [])
    assert load(tmp_path, 6) == load(tmp_path, "6") == (6, [])
    assert len(folders(tmp_path)) == 5


def test_the_checkpoint_of_the_saved_replay_stays(tmp_path):
    for step in range(1, 5):
        save(tmp_path, step)
    replay_file.save(tmp_path, 3, {"head": tf.Variable(0)})
    for step in range(5, 9):
        save(tmp_path, step)
    assert [*saved(tmp_path)] == [3, 6, 7, 8]
    replay_file.save(tmp_path, 8, {"head": tf.Variable(0)})
    save(tmp_path, 9)
    assert [*saved(tmp_path)] == [7, 8, 9]


def test_without_checkpoints_there_is_nothing_to_load(tmp_path):
    files.sweep(tmp_path / "checkpoints")
    with pytest.raises(UserError, match="holds no checkpoint"):
        load(tmp_path)


@pytest.mark.parametrize("which", [4, "4", "latest", "-1", ""])
def test_the_error_about_a_missing_step_lists_existing_ones(tmp_path, which):
    save(tmp_path, 5)
    with pytest.raises(UserError, match=r"no checkpoint .*newest, best or a step of 5"):
        load(tmp_path, which)


def test_best_without_evaluation_is_refused(tmp_path):
    save(tmp_path, 5, metadata={"best": False})
    with pytest.raises(UserError, match="marked best"):
        load(tmp_path, "best")


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def flip_last(path):
    data = bytearray(path.read_bytes().rstrip())
    data[-1] ^= 1
    path.write_bytes(data)


def truncate(path):
    os.truncate(path, path.stat().st_size - 1)
    if path.suffix == ".json":  # the last byte may be a newline
        os.truncate(path, path.stat().st_size - 2)


def replace_by_link(path):
    copy = path.with_name("elsewhere")
    path.rename(copy)
    path.symlink_to(copy.name)


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path)


DAMAGES = [
    flip,
    flip_last,
    truncate,
    pathlib.Path.unlink,
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"[" * 100_000),
    replace_by_link,
    replace_by_pipe,
]


@pytest.mark.parametrize("name", FILES)
def test_any_damage_is_reported_and_the_older_one_is_loaded(tmp_path, name):
    save(tmp_path, 1)
    good = save(tmp_path, 2)
    spare = tmp_path / "spare"
    shutil.copytree(good, spare)
    for damage in DAMAGES:
        damage(good / name)
        assert load(tmp_path) == (1, [("checkpoint_damaged", 2)])
        variables = make()
        with pytest.raises(UserError, match=r"no intact checkpoint .*step 2"):
            checkpoint.load(tmp_path, variables, 2, lambda *_, **__: None)
        assert as_values(variables) == as_values(make())
        shutil.rmtree(good)
        shutil.copytree(spare, good)
    assert load(tmp_path) == (2, [])


def test_the_error_names_every_damaged_checkpoint_and_its_file(tmp_path):
    for step, name in ((1, "variables.index"), (2, "state.json"), (3, "manifest.json")):
        (save(tmp_path, step) / name).write_text("damaged")
    text = r"step 3: manifest\.json .* step 2: state\.json .* step 1: variables\.index"
    with pytest.raises(UserError, match=text):
        load(tmp_path)


def test_damage_is_a_warning_without_on_event(tmp_path):
    save(tmp_path, 1)
    flip(save(tmp_path, 2) / "state.json")
    with pytest.warns(RuntimeWarning, match="step 2 is damaged and skipped"):
        step, _ = checkpoint.load(tmp_path, make())
    assert step == 1


def rewrite_manifest(path, **changes):
    """Change a manifest and update its hash."""
    manifest = json.loads((path / "manifest.json").read_text()) | changes
    del manifest["sha256"]
    text = json.dumps(manifest, sort_keys=True)
    manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (path / "manifest.json").write_text(json.dumps(manifest))


def test_a_newer_format_is_refused_and_not_skipped(tmp_path):
    save(tmp_path, 1)
    path = save(tmp_path, 2)
    rewrite_manifest(path, schema=3, versions={"tfagents_batch": "9.9.9"})
    with pytest.raises(UserError, match=r"format 3, .*9\.9\.9"):
        load(tmp_path)
    assert [*saved(tmp_path)] == [1, 2]


OUTSIDE = ["../secret", "/etc/passwd", "a/b", "..", "", "a\\b"]


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 3},
        {"schema": 0},
        {"schema": "1"},
        {"schema": None},
        {"files": ["state.json"]},
        {"files": {}},
        {"files": {"state.json": None}},
        {"variables": None},
        {"metadata": 1},
        *({"more": name} for name in OUTSIDE),
    ],
)
def test_a_manifest_that_is_malformed_or_leads_out_of_its_folder_is_damage(
    tmp_path, changes
):
    save(tmp_path, 1)
    path = save(tmp_path, 2)
    (tmp_path / "checkpoints" / "secret").write_text("x")
    if (name := changes.get("more")) is not None:
        files = json.loads((path / "manifest.json").read_text())["files"]
        changes = {"files": files | {name: {"size": 1, "sha256": ""}}}
    rewrite_manifest(path, **changes)
    assert load(tmp_path) == (1, [("checkpoint_damaged", 2)])


def test_a_linked_folder_is_ignored(tmp_path):
    save(tmp_path, 1)
    checkpoints = tmp_path / "checkpoints"
    (checkpoints / "step-000000000001").rename(tmp_path / "elsewhere")
    (checkpoints / "step-000000000001").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a symbolic link"):
        load(tmp_path)


def test_folders_without_a_manifest_are_ignored(tmp_path):
    save(tmp_path, 1)
    (tmp_path / "checkpoints" / "step-000000000002").mkdir()
    (tmp_path / "checkpoints" / "notes").mkdir()
    assert load(tmp_path)[0] == 1


def change(**changes):
    variables = make() | changes
    return {name: x for name, x in variables.items() if x is not None}


@pytest.mark.parametrize(
    "variables, text",
    [
        (change(f64=None), "f64 is only in the checkpoint"),
        (change(new=tf.Variable(1.0)), "new is not in the checkpoint"),
        (change(f64=tf.Variable(1.0)), r"f64 is float64 \[\] in the .*, float32 \[\]"),
        (change(flag=tf.Variable(1)), r"flag is bool \[\] in the .*, int32 \[\]"),
        (
            change(counter=tf.Variable(1.0)),
            r"counter is int64 \[\] in .*, float32 \[\]",
        ),
        (
            change(seed=tf.Variable([1] * 3, dtype=tf.uint32)),
            r"seed is uint32 \[2\] in the checkpoint, uint32 \[3\] here",
        ),
        (
            {"other": tf.Variable(1.0)},
            r"counter is only in the checkpoint; f64 .*; flag .*; and 4 more",
        ),
    ],
)
def test_variables_that_differ_are_refused_before_any_is_assigned(
    tmp_path, variables, text
):
    save(tmp_path, 1)
    save(tmp_path, 2)
    before = as_values(variables)
    with pytest.raises(UserError, match=text):
        checkpoint.load(tmp_path, variables)
    assert as_values(variables) == before


@pytest.mark.parametrize("saved, here", [("int32", "int64"), ("int64", "int32")])
def test_integers_of_another_width_are_restored(tmp_path, saved, here):
    values = [[-(2**31), 7], [0, 2**31 - 1]]
    checkpoint.save(tmp_path, 1, {"n": tf.Variable(values, dtype=saved)}, {})
    variables = {"n": tf.Variable(tf.zeros((2, 2), here))}
    checkpoint.load(tmp_path, variables)
    assert as_values(variables) == {"n": values}


def test_integers_of_another_width_fit_a_warm_start(tmp_path):
    names = "learner/n", "n"
    written = {x: tf.Variable([7], dtype=tf.int64) for x in names}
    checkpoint.save(tmp_path, 1, written, {})
    variables = {x: tf.Variable([0]) for x in names}
    assert checkpoint.load_fitting(tmp_path, 1, variables) == ["n"]
    assert as_values(variables) == {"learner/n": [7], "n": [0]}


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_a_value_that_a_variable_cannot_hold_is_refused(tmp_path, value):
    saved = {"a": tf.Variable(1.0), "n": tf.Variable([0, value], dtype=tf.int64)}
    checkpoint.save(tmp_path, 1, saved, {})
    variables = {"a": tf.Variable(2.0), "n": tf.Variable([3, 4])}
    with pytest.raises(UserError, match=rf"n has the value {value}; expected int32"):
        checkpoint.load(tmp_path, variables)
    assert as_values(variables) == {"a": 2.0, "n": [3, 4]}


def test_one_variable_under_two_names_is_refused(tmp_path):
    variable = tf.Variable(1.0)
    with pytest.raises(ValueError, match="a and b are one variable"):
        checkpoint.save(tmp_path, 1, {"a": variable, "b": variable}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_is_not_json_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(TypeError, match="not JSON serializable"):
        checkpoint.save(tmp_path, 1, make(), {"x": object()})
    assert list(tmp_path.iterdir()) == []


def test_saving_after_resuming_an_earlier_step_removes_later_ones(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, step)
    for step in (2, 3):
        flip(tmp_path / "checkpoints" / f"step-00000000000{step}" / "state.json")
    assert load(tmp_path)[0] == 1
    save(tmp_path, 2)
    assert load(tmp_path) == (2, [])
    assert [*saved(tmp_path)] == [1, 2]


def test_sweep_removes_leftovers_of_dead_processes(tmp_path):
    save(tmp_path, 1)
    path = save(tmp_path, 2)
    path.rename(path.with_name(f"{path.name}.old-77"))
    for pid in (77, os.getpid()):
        unfinished = tmp_path / "checkpoints" / f"step-000000000003.tmp-{pid}"
        shutil.copytree(tmp_path / "checkpoints" / "step-000000000001", unfinished)
    assert [*saved(tmp_path)] == [1]
    files.sweep(tmp_path / "checkpoints")
    assert folders(tmp_path) == ["step-000000000001", "step-000000000002"]
    assert load(tmp_path) == (2, [])


def test_all_bytes_reach_the_disk_before_the_final_name(tmp_path, monkeypatch):
    log = []
    fsync, rename = os.fsync, os.rename

    def record_fsync(descriptor):
        path = pathlib.Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        log.append(("fsync", path.name))
        fsync(descriptor)

    def record_rename(source, target):
        log.append(("rename", pathlib.Path(target).name))
        rename(source, target)

    (tmp_path / "checkpoints").mkdir()
    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "rename", record_rename)
    save(tmp_path, 1)
    final = "step-000000000001"
    temporary = f"{final}.tmp-{os.getpid()}"
    end = log.index(("rename", final))
    assert {name for _, name in log[: end - 2]} == {*FILES[1:], temporary}
    assert log[end - 2 :] == [
        ("fsync", "manifest.json"),
        ("fsync", temporary),
        ("rename", final),
        ("fsync", "checkpoints"),
    ]


def test_a_failing_disk_leaves_nothing_and_saving_can_be_retried(tmp_path, monkeypatch):
    save(tmp_path, 1)
    fsync = os.fsync
    failures = 0
    for k in range(20):
        calls = iter(range(100))

        def full(descriptor, k=k, calls=calls):
            if next(calls) == k:
                raise OSError(errno.ENOSPC, "No space left on device")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", full)
        try:
            save(tmp_path, 2)
        except checkpoint.SaveError as error:
            failures += 1
            assert "No space left on device" in str(error)
            assert not [name for name in folders(tmp_path) if "." in name]
            monkeypatch.setattr(os, "fsync", fsync)
            assert load(tmp_path)[1] == []
            shutil.rmtree(
                tmp_path / "checkpoints" / "step-000000000002", ignore_errors=True
            )
        else:
            break
    assert failures >= 6
    assert load(tmp_path) == (2, [])


def test_a_limit_that_stops_tensorflow_is_a_save_error(tmp_path):
    save(tmp_path, 1)
    big = {"w": tf.Variable(tf.zeros([1 << 18]))}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(checkpoint.SaveError, match="step 2 could not be saved"):
            checkpoint.save(tmp_path, 2, big, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert folders(tmp_path) == ["step-000000000001"]
    checkpoint.save(tmp_path, 2, big, {})
    assert max(saved(tmp_path)) == 2


class Killed(BaseException):
    """The end of a process."""


@contextlib.contextmanager
def killed_at(number):
    """Raise ``Killed`` at a file operation and, as nothing is cleaned up, later."""
    calls = itertools.count(1)

    def counted(function):
        def call(*args, **kwargs):
            if next(calls) >= number:
                raise Killed
            return function(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.train.Checkpoint, "write", counted(tf.train.Checkpoint.write))
        for name in ("mkdir", "open", "fsync", "rename", "unlink", "rmdir"):
            patch.setattr(os, name, counted(getattr(os, name)))
        patch.setattr(os, "getpid", lambda: 10**9)  # of a process that is gone
        yield


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Return copies of a run per step of a save: in copy k, operation k was killed.

    Step 4 is new, step 2 replaces a checkpoint. In the last copy nothing was killed.
    """
    folder, found = tmp_path_factory.mktemp("runs"), {4: [], 2: []}
    for step, before in ((4, (1, 2, 3)), (2, (1, 2))):
        (run := folder / str(step)).mkdir()
        for each in before:
            save(run, each)
        for number in itertools.count(1):
            copy = shutil.copytree(run, folder / f"{step}-{number}")
            found[step].append(copy)
            with contextlib.suppress(Killed), killed_at(number):
                save(copy, step)
                break
        assert number > 20
    return found


def test_a_save_killed_at_any_operation_leaves_the_old_or_the_new(killed):
    found = []
    for copy in killed[4]:
        step, events = load(copy)
        assert events == []
        found.append(step)
        files.sweep(copy / "checkpoints")
        assert load(copy) == (step, [])
        assert not [name for name in folders(copy) if "." in name]
    assert found == sorted(found)
    assert {*found} == {3, 4}
    assert [*saved(copy)] == [2, 3, 4]


def test_a_replacement_killed_at_any_operation_loses_neither(killed):
    before = {
        load(copy)[0]: files.sweep(copy / "checkpoints") or load(copy)
        for copy in killed[2]
    }
    assert before == {1: (2, []), 2: (2, [])}
