"""Trackers get the same data as the log, never block, and fail with one warning."""

import importlib
import json
import pathlib
import queue
import sys
import threading
from collections import namedtuple
from importlib.machinery import ModuleSpec
from unittest.mock import MagicMock, call

import numpy as np
import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.training.log import trackers
from tfagents_batch.training.log.logger import Logger
from tfagents_batch.training.log.trackers import Tracker

WAIT = 30.0


def test_calls_arrive_in_order_and_close_waits_for_all():
    opened = MagicMock()
    tracker = Tracker("Mine", lambda: opened, pytest.fail, WAIT)
    for step in range(200):
        tracker.send("write", step, {"a/b": step})
    tracker.send("event", {"event": "x", "step": 3})
    tracker.send("video", "video/x", b"GIF", 4)
    tracker.close("finished")
    tracker.close("failed")  # again: nothing happens
    tracker.send("write", 1, {})
    assert opened.mock_calls == [
        *(call.write(step, {"a/b": step}) for step in range(200)),
        call.event({"event": "x", "step": 3}),
        call.video("video/x", b"GIF", 4),
        call.close("finished"),
    ]


@pytest.mark.parametrize("fails_at", [0, 3, 10])
def test_a_tracker_that_fails_is_closed_with_one_warning(fails_at):
    warnings, effects = [], [None] * 11
    effects[fails_at] = ConnectionError("gone\nin many lines")
    opened = MagicMock()
    opened.write.side_effect, opened.close.side_effect = effects[:10], effects[10:]
    tracker = Tracker("Mine", lambda: opened, warnings.append, WAIT)
    for step in range(10):
        tracker.send("write", step, {})
    tracker.close("finished")
    assert warnings == [
        "warning: tracking by Mine ended; training continues: ConnectionError: gone"
    ]


@pytest.mark.parametrize("error", [OSError("no route"), SystemExit(1)])
def test_a_tracker_that_cannot_be_opened_is_closed(error):
    def make():
        raise error

    warnings = []
    Tracker("Mine", make, warnings.append, WAIT).close("failed")
    assert len(warnings) == 1
    assert type(error).__name__ in warnings[0]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [(trackers.BEHIND + 10, "1000 lines wait"), (0, "did not end within 0.05 s")],
)
def test_a_tracker_that_hangs_blocks_nothing_and_its_queue_is_bounded(lines, reason):
    go_on, warnings, opened = threading.Event(), [], MagicMock()
    opened.write.side_effect = opened.close.side_effect = lambda *_: go_on.wait(WAIT)
    tracker = Tracker("Mine", lambda: opened, warnings.append, close_seconds=0.05)
    try:
        for step in range(lines):
            tracker.send("write", step, {})
        tracker.close("finished")
        assert len(warnings) == 1
        assert reason in warnings[0]
    finally:
        go_on.set()
        tracker._thread.join(WAIT)


def test_a_logger_sends_the_same_to_its_trackers_and_closes_them(tmp_path):
    opened = MagicMock()
    with Logger(tmp_path, tracker=opened) as log:
        log.write({"a/b": np.float32(0.5), "a/nan": np.nan, "a/h": np.ones(3)}, 5)
        log.event("alarm", name="kl", text="far")
        log.video("video/x", np.zeros([2, 8, 8, 3], np.uint8), 7)
    header, line, alarm, video, end = opened.mock_calls
    assert header.args[0] == "event"
    assert line == call.send("write", 5, {"a/b": 0.5})
    assert alarm.args[0] == "event" and alarm.args[1]["text"] == "far"
    assert video.args[:2] == ("video", "video/x")
    assert video.args[2].startswith(b"GIF89a")
    assert end == call.close("failed")  # no event reported another end


def test_a_tracker_that_cannot_be_used_is_refused(tmp_path, monkeypatch):
    trackers.check("none")
    assert trackers.start("none", tmp_path, {}, pytest.fail) is None
    with pytest.raises(UserError, match="did you mean 'wandb'"):
        trackers.check("wand")
    # A folder with its name, which W&B leaves behind, is not the package.
    (tmp_path / "wandb").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for kind in ("wandb", "mlflow"):
        monkeypatch.delitem(sys.modules, kind, raising=False)
        importlib.invalidate_caches()
        with pytest.raises(UserError, match=rf'pip install "tfagents_batch\[{kind}\]"'):
            trackers.check(kind)


@pytest.fixture
def fake(monkeypatch):
    return fake_packages(monkeypatch)


def fake_packages(monkeypatch):
    """Return mocks of the packages, by name."""
    wandb, mlflow = (
        MagicMock(__spec__=ModuleSpec(name, None, origin="here"))
        for name in ("wandb", "mlflow")
    )
    run = wandb.init.return_value
    run.configure_mock(id="fresh", project="mine", entity=None, offline=False)
    run.configure_mock(url="https://server/run", summary={})
    client = mlflow.MlflowClient.return_value
    client.get_experiment_by_name.return_value = None
    client.create_run.return_value.info.run_id = "r1"
    mlflow.get_tracking_uri.return_value = "sqlite:///x"
    mlflow.entities.Metric = namedtuple("Metric", "key value timestamp step")
    mlflow.entities.Param = namedtuple("Param", "key value")
    found = {"wandb": wandb, "mlflow": mlflow, "mlflow.entities": mlflow.entities}
    for name, package in found.items():
        monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.setenv("WANDB_SILENT", "true")  # so that it is restored
    for variable in ("WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(variable, raising=False)
    return found


def track(kind, folder, ended="finished"):
    """Write a short run's log; return the lines printed for the user."""
    messages = queue.Queue()
    folder.mkdir(exist_ok=True)
    config = {"steps": 10, "settings": {"epochs": 2}}
    started = trackers.start(kind, folder, config, messages.put)
    step = 5 if (folder / "metrics.jsonl").exists() else None
    with Logger(folder, step, warn=pytest.fail, tracker=started) as log:
        log.write({"a/b": 1.5}, 6)
        log.event("alarm", name="kl", text="The KL is far")
        log.video("video/x", np.zeros([2, 8, 8, 3], np.uint8), 7)
        log.event(ended, step=9)
    return list(messages.queue)


def test_wandb_gets_settings_lines_alerts_videos_and_the_end(fake, tmp_path):
    folder = tmp_path / "run"
    assert track("wandb", folder) == ["Weights & Biases: https://server/run"]
    wandb = fake["wandb"]
    run, init = wandb.init.return_value, wandb.init.call_args.kwargs
    assert init["config"] == {"steps": 10, "settings.epochs": 2}
    assert (init["project"], init["name"]) == ("tfagents_batch", "run")
    assert init["resume"] is None
    wandb.Settings.assert_called_with(console="off")
    logged = [each.args[0] for each in run.log.call_args_list]
    assert {"step": 6, "a/b": 1.5} in logged
    assert {"step": 6, "event/alarm": 1} in logged
    assert {"step": 7, "video/x": wandb.Video.return_value} in logged
    (data,), options = wandb.Video.call_args
    assert data.read().startswith(b"GIF") and options == {"format": "gif"}
    run.alert.assert_called_once_with(title="alarm at step 6", text="The KL is far")
    run.finish.assert_called_once_with(exit_code=0)
    assert run.summary == {"ended": "finished"}
    names = {"id": "fresh", "project": "mine"}
    assert json.loads((folder / "wandb.json").read_text()) == names


def test_mlflow_gets_settings_lines_tags_artifacts_and_the_end(fake, tmp_path):
    assert track("mlflow", tmp_path / "run") == ["MLflow: run r1 of sqlite:///x"]
    client = fake["mlflow"].MlflowClient.return_value
    client.create_experiment.assert_called_once_with("tfagents_batch")
    assert client.create_run.call_args.kwargs == {"run_name": "run"}
    settings, metrics = (each.kwargs for each in client.log_batch.call_args_list)
    assert settings["params"] == [("steps", "10"), ("settings.epochs", "2")]
    (metric,) = metrics["metrics"]
    assert (metric.key, metric.value, metric.step) == ("a/b", 1.5, 6)
    tags = {each.args[1]: each.args[2] for each in client.set_tag.call_args_list}
    assert tags["alarm.kl"] == "The KL is far"
    assert "event.header" in tags
    files = [pathlib.Path(each.args[1]) for each in client.log_artifact.call_args_list]
    assert [file.name for file in files] == [
        "video-x-000000000007.gif",
        "metrics.jsonl",
    ]
    client.set_terminated.assert_called_once_with("r1", "FINISHED")


@pytest.mark.parametrize("text", ["", "[]", '{"run_id": 3}', "\x00"])
def test_a_damaged_file_of_identifiers_is_ignored(text, fake, tmp_path):
    (tmp_path / "mlflow.json").write_text(text)
    track("mlflow", tmp_path)
    fake["mlflow"].MlflowClient.return_value.create_run.assert_called_once()
    assert json.loads((tmp_path / "mlflow.json").read_text()) == {"run_id": "r1"}


@pytest.mark.parametrize("kind", ["wandb", "mlflow"])
def test_a_resumed_run_continues_in_the_same_run_of_its_tracker(kind, fake, tmp_path):
    for ended in ("stopped", "failed"):
        track(kind, tmp_path, ended)
    if kind == "wandb":
        init = fake["wandb"].init
        found = [init.call_args.kwargs[name] for name in ("id", "resume", "project")]
        assert found == ["fresh", "allow", "mine"]
        finish = init.return_value.finish.call_args_list
        assert [each.kwargs["exit_code"] for each in finish] == [0, 1]
        return
    client = fake["mlflow"].MlflowClient.return_value
    client.create_run.assert_called_once()
    client.update_run.assert_called_once_with("r1", status="RUNNING")
    assert sum("params" in each.kwargs for each in client.log_batch.call_args_list) == 1
    ends = [each.args for each in client.set_terminated.call_args_list]
    assert ends == [("r1", "KILLED"), ("r1", "FAILED")]
