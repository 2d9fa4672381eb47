import contextlib
import errno
import io
import json
import math
import os
import pathlib
import re
import resource
import subprocess
import sys

import numpy as np
import PIL.Image
import PIL.ImageSequence
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.plugin_event_accumulator import (
    EventAccumulator,
)
from tensorboard.util import img_mime_type_detector, tensor_util

from tfagents_batch.errors import UserError
from tfagents_batch.training.log import writers
from tfagents_batch.training.log.logger import Logger, read_events, read_metrics
from tfagents_batch.training.log.tensorboard import FAULTS

PAGE = pathlib.Path(__file__).parents[3] / "docs/watching.md"


def lines(folder):
    text = (folder / "metrics.jsonl").read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def tensorboard(folder):
    """Return ``{tag: [(step, array)]}`` as TensorBoard reads the folder."""
    accumulator = EventAccumulator(str(folder), tensor_size_guidance={})
    accumulator.Reload()
    return {
        tag: [
            (x.step, tensor_util.make_ndarray(x.tensor_proto))
            for x in accumulator.Tensors(tag)
        ]
        for tag in accumulator.Tags()["tensors"]
    }


def test_header_comes_first_and_step_leads_sorted_names(tmp_path):
    with Logger(tmp_path) as log:
        log.write({"loss/value": 2.0, "grad/norm": 1, "env/faults": 0}, 256)
    header, line = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(header)["event"] == "header"
    assert [*json.loads(header)][:2] == ["event", "step"]
    assert line == '{"step": 256, "env/faults": 0, "grad/norm": 1, "loss/value": 2.0}'


@pytest.mark.parametrize(
    "value, text",
    [
        (np.float32(0.1), "0.1"),
        (tf.constant(0.1), "0.1"),
        (np.float32(1 / 3), "0.33333334"),
        (np.float32(16777217), "16777216.0"),
        (np.float32(1e-45), "1e-45"),
        (np.float16(0.1), "0.1"),
        (tf.constant(0.1, tf.bfloat16), "0.100098"),
        (tf.constant(0.1, tf.float64), "0.1"),
        (0.1 + 0.2, "0.30000000000000004"),
        (np.float64(1e300), "1e+300"),
        (tf.constant(2**62, tf.int64), str(2**62)),
        (np.uint8(3), "3"),
        (True, "1"),
        (tf.constant(False), "0"),
        (tf.Variable(2.5), "2.5"),
        (np.array(7), "7"),
        (math.nan, "null"),
        (np.float32("inf"), "null"),
        (tf.constant(-math.inf), "null"),
    ],
)
def test_numbers_are_written_with_their_own_shortest_digits(tmp_path, value, text):
    with Logger(tmp_path) as log:
        log.write({"a/b": value}, tf.constant(1))
    line = (tmp_path / "metrics.jsonl").read_text().splitlines()[-1]
    assert line == f'{{"step": 1, "a/b": {text}}}'


def test_a_name_needs_no_group_and_can_be_that_of_a_group(tmp_path):
    with Logger(tmp_path) as log:
        log.write({"td_loss": np.arange(3.0), "td_loss/mean": 1.0, "loss": 2.0}, 1)
    assert lines(tmp_path)[1] == {"step": 1, "loss": 2.0, "td_loss/mean": 1.0}
    assert {"td_loss", "td_loss/mean", "loss"} <= set(tensorboard(tmp_path))


@pytest.mark.parametrize("name", ["/loss", "loss/", "", "a//b", "step", "event"])
def test_a_name_that_lines_cannot_have_is_refused(tmp_path, name):
    with Logger(tmp_path) as log:
        with pytest.raises(ValueError, match="group/name"):
            log.write({name: 1.0}, 1)
        with pytest.raises(ValueError, match="group/name"):
            log.video(name, np.zeros([1, 4, 4, 3], np.uint8), 1)


@pytest.mark.parametrize(
    "value", ["1.5", None, 1j, np.array("x"), object(), np.zeros([2, 2])]
)
def test_a_value_that_is_not_a_number_is_refused_with_its_name(tmp_path, value):
    error = (TypeError, ValueError)
    with Logger(tmp_path) as log, pytest.raises(error, match=r"metric a/b (is|has)"):
        log.write({"a/b": value}, 1)


def test_vectors_become_histograms_and_stay_out_of_the_lines(tmp_path):
    vector = tf.constant([0.0, 0.0, 1.0, 3.0, math.nan, math.inf])
    with Logger(tmp_path) as log:
        log.write({"histogram/log_prob": vector, "loss/x": 1.0}, 5)
        log.write({"policy/empty": np.zeros([0])}, 6)
    assert [*lines(tmp_path)[1]] == ["step", "loss/x"]
    found = tensorboard(tmp_path)
    assert "policy/empty" not in found
    ((step, buckets),) = found["histogram/log_prob"]
    assert step == 5
    assert buckets[0, 0] == 0.0
    assert buckets[-1, 1] == 3.0
    assert buckets[:, 2].sum() == 4  # the finite ones
    assert buckets[0, 2] == 2


def test_a_run_has_twenty_histograms_of_a_name_at_most(tmp_path):
    for first, last in ((0, 500), (500, 1003)):  # resumed at step 500
        with Logger(tmp_path, first or None, steps=1000) as log:
            for step in range(first, last, 3):
                log.write({"a/x": np.ones(3)}, step)
                if step >= 800:
                    log.write({"a/late": np.ones(3)}, step)
    found = tensorboard(tmp_path)
    steps = [step for step, _ in found["a/x"]]
    assert len(steps) == 20
    assert steps[0] == 0 and steps[-1] >= 1000
    assert min(np.diff(steps)) >= 50 and max(np.diff(steps)) <= 55  # 1000 / 19
    assert [step for step, _ in found["a/late"]] == [800, 845, 896, 950, 1001]


def test_faults_have_curves_once_they_are_not_zero(tmp_path):
    name = "env/restarts"
    with Logger(tmp_path) as log:
        for step, value in enumerate([0, 0, 2, 0]):
            log.write({name: value, "loss/x": 0.0}, step)
    with Logger(tmp_path, resume_step=3) as log:
        log.write({name: 0}, 4)
    assert [line[name] for line in read_metrics(tmp_path)] == [0, 0, 2, 0, 0]
    found = tensorboard(tmp_path)
    assert found[name] == [(2, 2), (3, 0), (4, 0)]
    assert len(found["loss/x"]) == 4
    with Logger(tmp_path, resume_step=1) as log:
        log.write({name: 0}, 4)
    assert not tensorboard(tmp_path)[name]  # the line of step 2 is discarded


def test_counters_of_faults_are_those_that_the_docs_call_healthy_at_zero():
    rows = re.findall(r"(?m)^\| (`.*?) \|.*\| (?:always )?0 \|$", PAGE.read_text())
    found = {name for row in rows for name in re.findall("`(.+?)`", row)}
    assert {x for x in FAULTS if not re.match("eval_sample|grad/actor", x)} == found


def test_tensorboard_shows_scalars_as_curves(tmp_path):
    with Logger(tmp_path) as log:
        for step in (10, 20, 30):
            log.write({"loss/x": np.float32(step / 3), "loss/huge": 1e300}, step)
        log.event("fallback", reason="xla said no")
    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()
    plugins = {
        tag: accumulator.SummaryMetadata(tag).plugin_data.plugin_name
        for tag in accumulator.Tags()["tensors"]
    }
    assert plugins == {
        "loss/x": "scalars",
        "loss/huge": "scalars",
        "event/header": "text",
        "event/fallback": "text",
    }
    found = tensorboard(tmp_path)
    assert found["loss/x"] == [(step, np.float32(step / 3)) for step in (10, 20, 30)]
    assert b"xla said no" in found["event/fallback"][0][1].item()


def test_resuming_discards_later_lines_everywhere(tmp_path):
    with Logger(tmp_path) as log:
        for step in (10, 20, 30, 40):
            log.write({"a/b": step}, step)
    with Logger(tmp_path, resume_step=20) as log:
        for step in (30, 50):
            log.write({"a/b": -step}, step)
    with Logger(tmp_path, resume_step=30) as log:
        log.write({"a/b": 0}, 40)
    expected = [(10, 10), (20, 20), (30, -30), (40, 0)]
    metrics = read_metrics(tmp_path)
    assert [(line["step"], line["a/b"]) for line in metrics] == expected
    assert tensorboard(tmp_path)["a/b"] == expected
    assert len(lines(tmp_path)) == 7 + 3 + 2  # nothing was deleted
    events = [(line["event"], line["step"]) for line in read_events(tmp_path)]
    assert events == [
        ("header", 0),
        ("header", 20),
        ("resumed", 20),
        ("header", 30),
        ("resumed", 30),
    ]


def test_event_files_sort_in_the_order_of_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(writers.time, "time", lambda: 1_700_000_000.0)
    for _ in range(3):  # within one second, and then after the clock went back
        with Logger(tmp_path, resume_step=0):
            pass
    monkeypatch.setattr(writers.time, "time", lambda: 1_600_000_000.0)
    with Logger(tmp_path, resume_step=0):
        pass
    names = sorted(path.name for path in tmp_path.glob("events*"))
    stamps = [int(name.split(".")[3]) - 1_700_000_000 for name in names]
    assert stamps == [0, 1, 2, 3]


def test_a_torn_last_line_is_ignored_and_cut_on_resume(tmp_path):
    with Logger(tmp_path) as log:
        log.write({"a/b": 1}, 1)
        log.write({"a/b": 2}, 2)
    path = tmp_path / "metrics.jsonl"
    whole = path.read_bytes()
    for end in range(len(whole) - 1, whole.rindex(b"\n", 0, -1) + 1, -1):
        os.truncate(path, end)
        assert [line["step"] for line in read_metrics(tmp_path)] == [1]
    with Logger(tmp_path, resume_step=1) as log:
        log.write({"a/b": 3}, 3)
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 3]
    assert len(lines(tmp_path)) == 5


@pytest.mark.parametrize("count", [0, 1, 10_000])
def test_a_torn_line_longer_than_a_block_is_cut(tmp_path, monkeypatch, count):
    def limited(descriptor, length, offset, pread=os.pread):
        return pread(descriptor, min(length, 100_000), offset)

    monkeypatch.setattr(os, "pread", limited)  # as on Linux, whose limit is 2 GiB
    whole = b'{"step": 1, "a/b": 1}\n' * count
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(whole + b'{"x": "' + b"x" * 200_000)
    Logger(tmp_path, resume_step=1).close()
    assert path.read_bytes().startswith(whole + b'{"event": "header"')


def test_a_line_damaged_elsewhere_is_an_error_with_its_number(tmp_path):
    with Logger(tmp_path) as log:
        log.write({"a/b": 1}, 1)
    path = tmp_path / "metrics.jsonl"
    for damaged in (b"nonsense\n", b"[]\n", b'{"step": "x"}\n', b"\n"):
        whole = path.read_bytes()
        path.write_bytes(damaged + whole)
        with pytest.raises(UserError, match="line 1 is not a log line"):
            read_metrics(tmp_path)
        path.write_bytes(whole)


def test_reading_without_a_log_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"metrics.jsonl cannot be read"):
        read_metrics(tmp_path)


def test_null_is_read_as_nan(tmp_path):
    with Logger(tmp_path) as log:
        log.write({"a/b": math.inf}, 1)
    (line,) = read_metrics(tmp_path)
    assert math.isnan(line["a/b"])


def test_a_new_run_never_appends_to_a_log(tmp_path):
    Logger(tmp_path).close()
    with pytest.raises(UserError, match="resume the run or start a new one"):
        Logger(tmp_path)


@pytest.mark.parametrize("resume_step", [None, 0])
def test_a_log_that_is_a_link_is_refused_and_its_target_is_left_alone(
    tmp_path, resume_step
):
    target = tmp_path / "another file"
    target.write_text("a line without an end")
    run = tmp_path / "run"
    run.mkdir()
    (run / "metrics.jsonl").symlink_to(target)
    with pytest.raises(UserError, match=r"metrics.jsonl (is a symbolic link|exists)"):
        Logger(run, resume_step)
    with pytest.raises(UserError, match="is a symbolic link; expected a regular file"):
        read_metrics(run)
    assert target.read_text() == "a line without an end"


def test_a_log_that_is_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    for use in (read_metrics, lambda run: Logger(run, resume_step=0)):
        with pytest.raises(UserError, match="is not a regular file"):
            use(tmp_path)


def test_events_carry_any_field_as_json(tmp_path):
    with Logger(tmp_path) as log:
        log.write({"a/b": 1}, 5)
        log.event(
            "restart",
            env=np.int64(3),
            cause=ValueError("no"),
            x=[np.float32(0.5), math.nan],
            y={1: (2,)},
            z=tf.constant([1, 2]),
        )
    line = lines(tmp_path)[-1]
    assert line.pop("time/unix_seconds") > 1.7e9
    assert line == {
        "event": "restart",
        "step": 5,
        "cause": "no",
        "env": 3,
        "x": [0.5, None],
        "y": {"1": [2]},
        "z": [1, 2],
    }


def test_a_kill_loses_nothing_written(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from tfagents_batch.training.log.logger import Logger\n"
        "log = Logger(sys.argv[1])\n"
        "for step in range(100): log.write({'a/b': step}, step)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run(
        [sys.executable, "-c", code, tmp_path], timeout=60, stderr=subprocess.DEVNULL
    )
    assert [line["a/b"] for line in read_metrics(tmp_path)] == [*range(100)]
    assert len(tensorboard(tmp_path)["a/b"]) == 100


@contextlib.contextmanager
def full_disk():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_lines_that_a_full_disk_refuses_are_written_later(tmp_path):
    warnings = []
    log = Logger(tmp_path, warn=warnings.append)
    log.write({"a/b": 0}, 0)
    with full_disk():
        for step in (1, 2, 3):
            log.write({"a/b": step}, step)
            log.event("x", step)
    assert [line["step"] for line in read_metrics(tmp_path)] == [0]
    log.write({"a/b": 4}, 4)
    log.close()
    assert [line["step"] for line in lines(tmp_path)] == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    found = tensorboard(tmp_path)
    assert [step for step, _ in found["a/b"]] == [0, 1, 2, 3, 4]
    assert [step for step, _ in found["event/x"]] == [1, 2, 3]
    assert [text.partition(" (")[0] for text in warnings] == [
        "warning: metrics.jsonl cannot be written",
        "warning: TensorBoard's file cannot be written",
        "metrics.jsonl can be written again",
        "TensorBoard's file can be written again",
    ]


def test_a_resumed_run_discards_later_steps_even_if_its_disk_was_full(tmp_path):
    with Logger(tmp_path) as log:
        for step in (10, 20, 30):
            log.write({"a/b": step}, step)
    with full_disk():
        log = Logger(tmp_path, resume_step=10, warn=lambda text: None)
        log.write({"a/b": -20}, 20)
    log.write({"a/b": -30}, 30)
    log.close()
    expected = [(10, 10), (20, -20), (30, -30)]
    metrics = read_metrics(tmp_path)
    assert [(line["step"], line["a/b"]) for line in metrics] == expected
    assert tensorboard(tmp_path)["a/b"] == expected
    assert len(list(tmp_path.glob("events*"))) == 2  # a failed attempt leaves no file


def test_waiting_lines_are_bounded_and_their_loss_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "MOST_WAITING", 100)
    warnings = []
    with Logger(tmp_path / "missing", warn=warnings.append) as log:
        for step in range(10):
            log.write({"a/b": step}, step)
    assert len(warnings) == 4
    assert warnings[2] == "warning: 11 lines of metrics.jsonl are lost"
    assert warnings[3] == "warning: 11 lines of TensorBoard's file are lost"


def test_a_file_that_cannot_be_written_does_not_affect_the_other(tmp_path, monkeypatch):
    warnings = []
    with Logger(tmp_path, warn=warnings.append) as log:

        def full(descriptor, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            log.write({"a/b": 1}, 1)
            assert read_metrics(tmp_path) == []
            assert [step for step, _ in tensorboard(tmp_path)["a/b"]] == [1]
    assert len(warnings) == 2
    assert [line["step"] for line in read_metrics(tmp_path)] == [1]


@pytest.mark.parametrize("file", [writers.Lines, writers.EventFile])
def test_a_file_that_fails_when_it_is_closed_is_a_warning(tmp_path, monkeypatch, file):
    def close(self, close=file.close):
        close(self)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file, "close", close)
    warnings = []
    with Logger(tmp_path, warn=warnings.append) as log:
        log.write({"loss/x": 1.0}, 1)
    (warning,) = warnings
    assert "cannot be closed (" in warning and "No space left" in warning
    assert [line["loss/x"] for line in read_metrics(tmp_path)] == [1.0]


def test_files_are_closed_before_the_tracker_which_may_wait_for_a_server(tmp_path):
    class Tracker:
        def send(self, method, *arguments):
            pass

        def close(self, ended):
            log.event("late")  # the file is closed already

    log = Logger(tmp_path, tracker=Tracker())
    log.close()
    assert [event["event"] for event in read_events(tmp_path)] == ["header"]


@pytest.mark.parametrize(("fps", "duration"), [(10, 100), (50, 20)])
def test_a_video_is_an_animated_gif_among_tensorboards_images(tmp_path, fps, duration):
    frames = np.zeros([3, 12, 16, 3], np.uint8)
    frames[0, :, :, 0] = 255
    frames[1, :6] = (0, 0, 255)
    with Logger(tmp_path) as log:
        log.video("video/episode", frames, 30, fps)
    assert [each["event"] for each in lines(tmp_path)] == ["header"]
    accumulator = EventAccumulator(str(tmp_path), tensor_size_guidance={})
    accumulator.Reload()
    metadata = accumulator.SummaryMetadata("video/episode")
    assert metadata.plugin_data.plugin_name == "images"
    ((step, (width, height, data)),) = tensorboard(tmp_path)["video/episode"]
    assert (step, width, height) == (30, b"16", b"12")
    assert img_mime_type_detector.from_bytes(data) == "image/gif"
    image = PIL.Image.open(io.BytesIO(data))
    assert image.info["duration"] == duration  # browsers show 50 a second at most
    assert image.info["loop"] == 0  # forever
    found = [np.asarray(x.convert("RGB")) for x in PIL.ImageSequence.Iterator(image)]
    assert np.abs(np.array(found).astype(int) - frames).max() <= 2
