import json
import logging

import numpy as np
import pytest
import tensorflow as tf

from tests.training.run_folder.test_checkpoint import (
    flip,
    replace_by_link,
    replace_by_pipe,
    truncate,
)
from tfagents_batch.errors import SaveError, UserError
from tfagents_batch.training.run_folder import files, replay_file


def variables(seed):
    random = np.random.default_rng(seed)
    values = {
        "steps/000": random.integers(0, 255, (5000, 4, 4), dtype=np.uint8),
        "steps/001": random.random((5000, 2), np.float32),
        "steps/002": random.random((5000,)) < 0.5,
        "head": np.int32(seed),
        "start": np.int64(2**40 + seed),
    }
    return {k: tf.Variable(v, trainable=False) for k, v in values.items()}


def assert_equal(found, expected):
    for name, variable in expected.items():
        np.testing.assert_array_equal(found[name], variable, err_msg=name)


def test_a_replay_is_restored_exactly_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_file, "_CHUNK", 10_000)
    saved, restored = variables(1), variables(2)
    replay_file.save(tmp_path, 70, saved)
    replay_file.load(tmp_path, 70, restored)
    assert_equal(restored, saved)


def widths(dtype, values=0):
    """Return variables of integers, with and without axes."""
    rows = np.zeros((5000, 3), dtype)
    rows[:] = values
    made = {"rows": rows, "head": np.asarray(values, dtype), "none": rows[:0]}
    return {k: tf.Variable(v, trainable=False) for k, v in made.items()}


@pytest.mark.parametrize("value", [-(2**15), 2**15 - 1])
@pytest.mark.parametrize("narrow", [np.int16, np.int32])
@pytest.mark.parametrize("grows", [False, True])
def test_integers_of_another_width_are_restored(
    tmp_path, monkeypatch, narrow, grows, value
):
    monkeypatch.setattr(replay_file, "_CHUNK", 10_000)
    dtypes = (narrow, np.int64) if grows else (np.int64, narrow)
    saved, restored = widths(dtypes[0], value), widths(dtypes[1])
    saved["rows"].scatter_nd_update([[4999, 2]], [5])
    replay_file.save(tmp_path, 70, saved)
    replay_file.load(tmp_path, 70, restored)
    assert_equal(restored, saved)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
@pytest.mark.parametrize("name", ["rows", "head"])
def test_a_value_that_a_variable_cannot_hold_is_refused(
    tmp_path, monkeypatch, name, value
):
    monkeypatch.setattr(replay_file, "_CHUNK", 10_000)
    saved, restored = widths(np.int64), widths(np.int32, 1)
    if name == "rows":  # the last one
        saved[name].scatter_nd_update([[4999, 2]], [value])
    else:
        saved[name].assign(value)
    replay_file.save(tmp_path, 70, saved)
    message = rf"{name} has the value {value}; expected int32\); remove this folder"
    with pytest.raises(UserError, match=message):
        replay_file.load(tmp_path, 70, restored)
    assert_equal(restored, widths(np.int32, 1))


@pytest.mark.parametrize("dtype", ["float64", "object", "int128", None, ["int64"]])
def test_a_dtype_that_does_not_fit_is_refused(tmp_path, dtype):
    replay_file.save(tmp_path, 70, widths(np.int64))
    path = tmp_path / "replay" / "step-000000000070" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["variables"]["rows"]["dtype"] = dtype
    manifest["sha256"] = files.self_hash(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"rows is .*; expected int64 \[5000, 3\]"):
        replay_file.load(tmp_path, 70, widths(np.int64))


def test_tensorflow_does_not_warn_of_retracing(tmp_path, caplog):
    replay_file.save(tmp_path, 70, variables(1))
    logger = logging.getLogger("tensorflow")
    with caplog.at_level("WARNING", "tensorflow"):
        logger.addHandler(caplog.handler)  # it does not propagate
        for _ in range(3):
            replay_file.load(tmp_path, 70, variables(2))
        logger.removeHandler(caplog.handler)
    assert caplog.messages == []


def test_the_newest_replay_that_is_not_newer_than_the_weights_is_chosen(tmp_path):
    assert replay_file.newest(tmp_path, 100) is None
    replay_file.save(tmp_path, 70, variables(1))
    assert replay_file.newest(tmp_path, 69) == 70  # there is no older one
    (tmp_path / "replay" / "step-000000000060").mkdir()
    assert replay_file.newest(tmp_path, 69) == 60
    assert replay_file.newest(tmp_path, 70) == replay_file.newest(tmp_path, 99) == 70
    replay_file.save(tmp_path, 90, variables(2))
    assert replay_file.newest(tmp_path, 99) == 90
    assert len(list((tmp_path / "replay").iterdir())) == 1  # it replaces the other


def test_what_a_killed_process_left_unfinished_is_removed(tmp_path):
    left = tmp_path / "replay" / "step-000000000050.tmp-1"
    left.mkdir(parents=True)
    replay_file.save(tmp_path, 70, variables(1))
    assert not left.exists()


def test_only_the_named_variables_are_restored(tmp_path):
    saved, restored = variables(1), variables(2)
    replay_file.save(tmp_path, 70, saved)
    replay_file.load(tmp_path, 70, {"head": restored["head"]})
    assert_equal(restored, {**variables(2), "head": saved["head"]})


@pytest.mark.parametrize("step", [70, 90])
def test_an_older_replay_is_intact_until_the_new_one_is_complete(
    tmp_path, step, monkeypatch
):
    replay_file.save(tmp_path, 70, variables(1))
    write = replay_file._write

    def full(path, variable):
        if path.name == "004.bin":
            raise OSError(28, "No space left on device")
        return write(path, variable)

    monkeypatch.setattr(replay_file, "_write", full)
    with pytest.raises(SaveError, match="No space left"):
        replay_file.save(tmp_path, step, variables(2))
    restored = variables(3)
    replay_file.load(tmp_path, 70, restored)
    assert_equal(restored, variables(1))


def test_a_replay_that_a_killed_process_was_replacing_is_found_again(tmp_path):
    replay_file.save(tmp_path, 70, variables(1))
    folder = tmp_path / "replay" / "step-000000000070"
    folder.rename(folder.with_name(f"{folder.name}.old-1"))
    files.sweep(tmp_path / "replay")
    assert replay_file.newest(tmp_path, 70) == 70


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("schema", 99, "in format 99; this version reads 1"),
        ("step", 71, "belongs to step 71"),
        ("variables", {}, "KeyError"),
        ("sha256", "0", "has changed"),
    ],
)
def test_another_manifest_is_refused(tmp_path, name, value, message):
    replay_file.save(tmp_path, 70, variables(1))
    path = tmp_path / "replay" / "step-000000000070" / "manifest.json"
    manifest = json.loads(path.read_text()) | {name: value}
    if name != "sha256":
        manifest["sha256"] = files.self_hash(manifest)
    path.write_text(json.dumps(manifest))
    restored = variables(2)
    with pytest.raises(UserError, match=message):
        replay_file.load(tmp_path, 70, restored)
    assert_equal(restored, variables(2))


def test_numbers_are_checked_before_anything_is_assigned(tmp_path):
    replay_file.save(tmp_path, 70, variables(1))
    seen, restored = {}, variables(2)

    def check(numbers):
        seen.update(numbers)
        raise ValueError("head is 1; expected 0")

    with pytest.raises(UserError, match="head is 1"):
        replay_file.load(tmp_path, 70, restored, check)
    assert seen == {"head": 1, "start": 2**40 + 1}
    assert_equal(restored, variables(2))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(("001.bin", damage) for damage in (flip, truncate)),
        *(("001.bin", damage) for damage in (replace_by_link, replace_by_pipe)),
        ("manifest.json", lambda path: path.write_text("{")),
        ("head", None),  # a variable of another shape
    ],
)
def test_a_damaged_replay_is_refused_and_nothing_is_assigned(tmp_path, name, damage):
    replay_file.save(tmp_path, 70, variables(1))
    folder, restored = tmp_path / "replay" / "step-000000000070", variables(2)
    if damage is None:
        restored[name] = tf.Variable(np.zeros(3, np.int32))
    else:
        damage(folder / name)
    before = {k: tf.Variable(v) for k, v in restored.items()}
    with pytest.raises(UserError, match=r"cannot be used.*remove this folder"):
        replay_file.load(tmp_path, 70, restored)
    assert_equal(restored, before)
