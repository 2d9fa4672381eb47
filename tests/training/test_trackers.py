"""Trackers: told what the log is told, never waited for, given up with one warning."""

import importlib
import json
import queue
import sys
import threading

import numpy as np
import pytest

from tfagents_batch.errors import UserError
from tfagents_batch.training import tracker, trackers
from tfagents_batch.training.logger import Logger
from tfagents_batch.training.trackers import Apart

WAIT = 30.0


class Recorder:
    """Keeps what it is told, in its thread."""

    def __init__(self, fails_at=None):
        self.calls, self._fails_at = [], fails_at

    def write(self, step, metrics):
        self._note("write", step, metrics)

    def event(self, line):
        self._note("event", line)

    def video(self, name, data, step):
        self._note("video", name, data, step)

    def close(self, ended):
        self._note("close", ended)

    def _note(self, *call):
        if len(self.calls) == self._fails_at:
            raise ConnectionError("server gone\nin many lines")
        self.calls.append(call)


def test_calls_arrive_in_order_and_the_end_waits_for_all(tmp_path):
    made = Recorder()
    apart = Apart("Mine", lambda: made, pytest.fail, WAIT)
    for step in range(200):
        apart.write(step, {"a/b": step})
    apart.event({"event": "x", "step": 3})
    apart.video("video/x", b"GIF", 4)
    apart.close("finished")
    apart.close("failed")  # again: nothing happens
    apart.write(1, {})
    assert made.calls == [
        *(("write", step, {"a/b": step}) for step in range(200)),
        ("event", {"event": "x", "step": 3}),
        ("video", "video/x", b"GIF", 4),
        ("close", "finished"),
    ]


@pytest.mark.parametrize("fails_at", [0, 3, 10])
def test_a_tracker_that_fails_is_given_up_with_one_warning(fails_at):
    warnings = []
    apart = Apart("Mine", lambda: Recorder(fails_at), warnings.append, WAIT)
    for step in range(10):
        apart.write(step, {})
    apart.close("finished")
    assert warnings == [
        "warning: tracking by Mine ends, training goes on: ConnectionError: server gone"
    ]


@pytest.mark.parametrize("error", [OSError("no route"), SystemExit(1)])
def test_a_tracker_that_cannot_be_opened_is_given_up(error):
    def make():
        raise error

    warnings = []
    Apart("Mine", make, warnings.append, WAIT).close("failed")
    assert len(warnings) == 1
    assert type(error).__name__ in warnings[0]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [(trackers.BEHIND + 10, "1000 lines wait"), (0, "did not end within 0.05 s")],
)
def test_a_tracker_that_hangs_is_neither_waited_for_nor_fed_without_end(lines, reason):
    go_on = threading.Event()

    class Hangs(Recorder):
        def _note(self, *call):
            go_on.wait(WAIT)

    warnings = []
    apart = Apart("Mine", Hangs, warnings.append, close_seconds=0.05)
    try:
        for step in range(lines):
            apart.write(step, {})
        apart.close("finished")
        assert len(warnings) == 1
        assert reason in warnings[0]
    finally:
        go_on.set()
        apart._thread.join(WAIT)


def test_a_logger_sends_the_same_to_its_trackers_and_closes_them(tmp_path):
    made = Recorder()
    with Logger(tmp_path, trackers=[made]) as log:
        log.write({"a/b": np.float32(0.5), "a/nan": np.nan, "a/h": np.ones(3)}, 5)
        log.event("alarm", name="kl", text="far")
        log.video("video/x", np.zeros([2, 8, 8, 3], np.uint8), 7)
    kinds = [call[0] for call in made.calls]
    assert kinds == ["event", "write", "event", "video", "close"]
    assert made.calls[1] == ("write", 5, {"a/b": 0.5})
    assert made.calls[2][1]["text"] == "far"
    assert made.calls[3][1] == "video/x" and made.calls[3][2].startswith(b"GIF89a")
    assert made.calls[-1] == ("close", "failed")  # no event said another end


def test_a_tracker_that_cannot_be_used_is_refused(tmp_path, monkeypatch):
    trackers.check("none")
    assert trackers.start("none", tmp_path, {}, pytest.fail) == []
    with pytest.raises(UserError, match="did you mean 'wandb'"):
        trackers.check("wand")
    # A folder of its name, such as W&B leaves behind, is not the package.
    (tmp_path / "wandb").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for kind in ("wandb", "mlflow"):
        monkeypatch.delitem(sys.modules, kind, raising=False)
        importlib.invalidate_caches()
        with pytest.raises(UserError, match=rf'pip install "tfagents_batch\[{kind}\]"'):
            trackers.check(kind)


def test_names_are_kept_as_text_and_damage_is_no_name(tmp_path):
    path = tmp_path / "x.json"
    assert tracker.read_id(path) == {}
    tracker.write_id(path, id="abc", project="p")
    assert json.loads(path.read_text()) == {"id": "abc", "project": "p"}
    assert tracker.read_id(path) == {"id": "abc", "project": "p"}
    for damaged in ("", "[]", '{"id": 3}', "\x00"):
        path.write_text(damaged)
        assert tracker.read_id(path) == {}


FAKE_WANDB = """
calls = []
class Settings:
    def __init__(self, **options): self.options = options
class Video:
    def __init__(self, data, format): self.data, self.format = data.read(), format
class Run:
    project, entity, url, dir = "mine", None, "https://server/run", "/x"
    offline = False
    def __init__(self, id): self.id, self.summary = id or "fresh", {}
    def define_metric(self, *a, **k): calls.append(("define", a, k))
    def log(self, data): calls.append(("log", data))
    def alert(self, title, text): calls.append(("alert", title, text))
    def finish(self, exit_code): calls.append(("finish", exit_code, self.summary))
def init(**options):
    calls.append(("init", options))
    return Run(options["id"])
"""

FAKE_MLFLOW = """
import types
calls = []
class MlflowClient:
    def __getattr__(self, name):
        def call(*a, **k):
            calls.append((name, a, k))
            if name == "create_run":
                return types.SimpleNamespace(info=types.SimpleNamespace(run_id="r1"))
            return None if name == "get_experiment_by_name" else "7"
        return call
def get_tracking_uri(): return "sqlite:///x"
"""
FAKE_ENTITIES = """
import collections
Metric = collections.namedtuple("Metric", "key value timestamp step")
Param = collections.namedtuple("Param", "key value")
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes stand-ins of the packages importable; returns their calls."""
    root = tmp_path / "packages"
    for name, files in {
        "wandb": {"__init__.py": FAKE_WANDB},
        "mlflow": {"__init__.py": FAKE_MLFLOW, "entities.py": FAKE_ENTITIES},
    }.items():
        (root / name).mkdir(parents=True)
        for file, text in files.items():
            (root / name / file).write_text(text)
    monkeypatch.syspath_prepend(root)
    for name in [n for n in sys.modules if n.partition(".")[0] in ("wandb", "mlflow")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("WANDB_SILENT", "true")  # so that it is put back
    for variable in ("WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(variable, raising=False)
    yield lambda name: importlib.import_module(name).calls
    for name in [n for n in sys.modules if n.partition(".")[0] in ("wandb", "mlflow")]:
        del sys.modules[name]


def track(kind, folder, ended="finished"):
    """A short run's log; returns what the user was told."""
    told = queue.Queue()
    folder.mkdir(exist_ok=True)
    config = {"steps": 10, "settings": {"epochs": 2}}
    made = trackers.start(kind, folder, config, told.put)
    step = 5 if (folder / "metrics.jsonl").exists() else None
    with Logger(folder, step, warn=pytest.fail, trackers=made) as log:
        log.write({"a/b": 1.5}, 6)
        log.event("alarm", name="kl", text="The KL is far")
        log.video("video/x", np.zeros([2, 8, 8, 3], np.uint8), 7)
        log.event(ended, step=9)
    return list(told.queue)


def test_wandb_gets_settings_lines_alerts_videos_and_the_end(fake, tmp_path):
    folder = tmp_path / "run"
    assert track("wandb", folder) == ["Weights & Biases: https://server/run"]
    calls = fake("wandb")
    (init,) = [call[1] for call in calls if call[0] == "init"]
    assert init["config"] == {"steps": 10, "settings.epochs": 2}
    assert (init["project"], init["name"]) == ("tfagents_batch", "run")
    assert init["resume"] is None
    assert init["settings"].options["console"] == "off"
    logged = [call[1] for call in calls if call[0] == "log"]
    assert {"step": 6, "a/b": 1.5} in logged
    assert {"step": 6, "event/alarm": 1} in logged
    (video,) = [line["video/x"] for line in logged if "video/x" in line]
    assert video.format == "gif" and video.data.startswith(b"GIF")
    assert ("alert", "alarm at step 6", "The KL is far") in calls
    assert calls[-1] == ("finish", 0, {"ended": "finished"})
    assert json.loads((folder / "wandb.json").read_text())["id"] == "fresh"


def test_mlflow_gets_settings_lines_tags_artifacts_and_the_end(fake, tmp_path):
    assert track("mlflow", tmp_path / "run") == ["MLflow: run r1 of sqlite:///x"]
    calls = fake("mlflow")
    named = {}
    for name, args, kwargs in calls:
        named.setdefault(name, []).append((args, kwargs))
    assert named["create_experiment"] == [(("tfagents_batch",), {})]
    assert named["create_run"][0][1]["run_name"] == "run"
    batches = [kwargs for _, kwargs in named["log_batch"]]
    settings = [("steps", "10"), ("settings.epochs", "2")]
    assert [tuple(p) for p in batches[0]["params"]] == settings
    (metric,) = batches[1]["metrics"]
    assert (metric.key, metric.value, metric.step) == ("a/b", 1.5, 6)
    tags = {args[1]: args[2] for args, _ in named["set_tag"]}
    assert tags["alarm.kl"] == "The KL is far"
    assert "event.header" in tags
    files = [args[1].rpartition("/")[2] for args, _ in named["log_artifact"]]
    assert files == ["video-x-000000000007.gif", "metrics.jsonl"]
    assert named["set_terminated"] == [(("r1", "FINISHED"), {})]


@pytest.mark.parametrize("kind", ["wandb", "mlflow"])
def test_a_resumed_run_goes_on_in_the_same_run_of_its_tracker(kind, fake, tmp_path):
    folder = tmp_path / "run"
    track(kind, folder, ended="stopped")
    calls = fake(kind)
    first = list(calls)
    calls.clear()
    track(kind, folder, ended="failed")
    if kind == "wandb":
        init = calls[0][1]
        expected = ("fresh", "allow", "mine")
        assert (init["id"], init["resume"], init["project"]) == expected
        assert calls[-1][1] == 1
        return
    assert first[-1] == ("set_terminated", ("r1", "KILLED"), {})
    assert "create_run" not in [call[0] for call in calls]
    assert calls[0] == ("update_run", ("r1",), {"status": "RUNNING"})
    assert not any("params" in kwargs for _, _, kwargs in calls)
    assert calls[-1] == ("set_terminated", ("r1", "FAILED"), {})
