"""Alarms, callbacks, videos and trackers of whole runs."""

import importlib
import pathlib

import numpy as np
import pytest
from gymnasium import spaces as gs
from tensorboard.backend.event_processing.plugin_event_accumulator import (
    EventAccumulator,
)

import tfagents_batch as tfb
from tests.support.linear import Config
from tests.support.lines import of_the_seed, saved
from tests.support.space_env import SpaceEnv
from tests.training.log.test_trackers import fake  # noqa: F401
from tests.training.video.test_clips import Falling, Shown
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Limit
from tfagents_batch.training.log.logger import read_events, read_metrics

QUICK = {
    "steps": 600,
    "num_envs": 2,
    "rollout.length": 50,
    "num_workers": 0,
    "eval_every": 0,
    "log_every": 1,
    "compile": "off",
    "compile_cache": False,
}
pytestmark = pytest.mark.usefixtures("linear")


def train(env="CartPole-v1", **options):
    return tfb.train("linear", env=env, **options)


def events(run, kind):
    return [event for event in read_events(run.logdir) if event["event"] == kind]


@pytest.fixture
def alarming(monkeypatch):
    """Raise an alarm for every loss."""
    text = "The loss is {loss/total:.3g}"
    row = Limit("much", "loss/total", text, above=-1e9)
    monkeypatch.setattr(Config, "alarms", lambda config, spec: (row,))


def test_an_alarm_is_a_line_on_the_console_and_an_event(tmp_path, capsys, alarming):
    run = train(logdir=tmp_path, **QUICK)
    found = events(run, "alarm")
    assert found
    names = [event["name"] for event in found]
    assert len(names) == len(set(names))
    assert f"alarm: {found[0]['text']}" in capsys.readouterr().err
    resumed = tfb.train(resume=run.logdir, steps=1200)
    assert [event["name"] for event in events(resumed, "alarm")][: len(names)] == names


def test_a_run_says_at_its_start_which_images_go_to_no_cnn(tmp_path, capsys):
    space = gs.Box(-np.inf, np.inf, (8, 8, 1), np.float32)
    short = QUICK | {"steps": 100, "logdir": tmp_path}
    train(lambda: SpaceEnv(gs.Dict(camera=space)), **short)
    (line,) = [x for x in capsys.readouterr().err.splitlines() if "note:" in x]
    assert "observation['camera'] has shape (8, 8, 1), like an image" in line


def test_callbacks_see_iterations_evaluations_and_checkpoints(tmp_path):
    calls = {"iteration": [], "evaluation": [], "checkpoint": []}
    run = train(
        logdir=tmp_path,
        on_iteration=calls["iteration"].append,
        on_evaluation=[calls["evaluation"].append],
        on_checkpoint=calls["checkpoint"].append,
        **QUICK | {"eval_every": 300, "eval_episodes": 2},
    )
    steps = [event.step for event in calls["iteration"]]
    assert steps == [
        line["step"] for line in read_metrics(run.logdir) if "env/masked" in line
    ]
    assert all("loss/total" in event.metrics for event in calls["iteration"])
    assert any("episode/return_mean" in event.metrics for event in calls["iteration"])
    assert calls["evaluation"][0].best
    assert {call.path.name for call in calls["checkpoint"]} >= {f"step-{run.step:012d}"}
    assert all(call.path.parent.parent == call.folder for call in calls["checkpoint"])
    assert calls["checkpoint"][0].step == steps[0]  # after the first iteration
    assert any(event.best for event in calls["checkpoint"])


# test_training_ends_at_the_requested_return has one of evaluations.
@pytest.mark.parametrize("what", ["on_iteration", "on_checkpoint"])
def test_a_callback_ends_training_with_a_checkpoint(tmp_path, what):
    options = QUICK | {"steps": 5000, "eval_every": 200, "eval_episodes": 2}
    callback = {what: lambda event: False}
    run = train(logdir=tmp_path, **callback, **options)
    assert run.finished
    assert run.step < 1000
    assert max(saved(run.logdir)) == run.step
    assert [event["event"] for event in read_events(run.logdir)][-2:] == [
        "stopped_by_callback",
        "finished",
    ]


@pytest.mark.parametrize("what", ["on_iteration", "on_evaluation", "on_checkpoint"])
def test_a_callbacks_exception_is_raised_after_a_checkpoint(tmp_path, what):
    class Mine(Exception):
        pass

    def bad(event):
        raise Mine("of the user")

    options = QUICK | {"eval_every": 200, "eval_episodes": 2}
    with pytest.raises(Mine, match="of the user"):
        train(logdir=tmp_path, **{what: bad}, **options)
    (folder,) = pathlib.Path(tmp_path).iterdir()
    assert saved(folder)
    last = read_events(folder)[-1]
    assert (last["event"], last["error"]) == ("failed", "Mine")
    assert max(saved(folder)) == last["step"]
    if what == "on_iteration":
        assert tfb.train(resume=folder).finished
    if what == "on_evaluation":  # the first one was the best one so far
        assert saved(folder)[last["step"]]["best"]


def test_a_callback_that_would_never_be_called_is_refused(tmp_path):
    with pytest.raises(UserError, match="on_evaluation would never be called"):
        train(logdir=tmp_path, on_evaluation=print, **QUICK)
    assert list(tmp_path.iterdir()) == []


def test_permanent_checkpoints_are_not_deleted(tmp_path):
    options = QUICK | {"steps": 900, "checkpoint_every": 1e-6}
    run = train(logdir=tmp_path, keep_every=300, **options)
    permanent = [step for step, each in saved(run.logdir).items() if each["keep"]]
    assert len(permanent) == 2
    assert 300 <= permanent[0] <= permanent[1] - 300
    assert len({*saved(run.logdir)} - {*permanent}) <= 3
    resumed = tfb.train(resume=run.logdir, steps=1300)
    assert set(permanent) < set(saved(resumed.logdir))
    assert tfb.evaluate(run.logdir, 2, checkpoint=permanent[0]).episodes == 2


def test_training_ends_at_the_requested_return(tmp_path):
    options = QUICK | {"steps": 5000, "eval_every": 200, "eval_episodes": 2}
    run = train(logdir=tmp_path, stop_at_return=5, **options)
    assert run.finished
    assert run.step < 1000
    (event,) = events(run, "stopped_by_callback")
    assert event["name"] == "stop_at_return(5)"
    with pytest.raises(UserError, match=r"stop_at_return is 5.*eval_every is 0"):
        train(logdir=tmp_path, stop_at_return=5, **QUICK)


@pytest.mark.parametrize("env", [pytest.param(Falling, marks=pytest.mark.slow), Shown])
def test_videos_are_in_tensorboard_and_do_not_affect_training(tmp_path, env):
    options = {k: v for k, v in QUICK.items() if env is Shown or k != "num_workers"}
    without_videos = train(env=env, logdir=tmp_path / "plain", **options)
    run = train(env=env, logdir=tmp_path / "film", log_video_every=300, **options)
    assert of_the_seed(run) == of_the_seed(without_videos)
    assert len(events(run, "video")) == 2
    accumulator = EventAccumulator(run.logdir, tensor_size_guidance={})
    accumulator.Reload()
    assert len(accumulator.Tensors("video/episode")) == 2


def test_an_environment_that_cannot_be_filmed_is_refused_early(tmp_path):
    env = tfb.make_env("CartPole-v1", 2, 0)
    with env, pytest.raises(UserError, match="a second instance cannot be created"):
        train(
            env=env,
            logdir=tmp_path,
            steps=100,
            eval_every=0,
            log_video_every=1,
        )
    assert list(tmp_path.iterdir()) == []


def test_a_tracker_gets_the_run_and_a_resumed_run_continues_there(tmp_path, fake):  # noqa: F811
    run = train(logdir=tmp_path, track="wandb", **QUICK)
    init = fake["wandb"].init
    assert init.call_args.kwargs["config"]["settings.gamma"] == 0.9
    assert init.return_value.log.call_args.args[0]["step"] == run.step
    init.return_value.finish.assert_called_once()
    tfb.train(resume=run.logdir, steps=1200)
    assert init.call_args.kwargs["resume"] == "allow"


def test_a_missing_tracker_is_refused_before_a_folder_exists(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="needs mlflow"):
        train(logdir=tmp_path, track="mlflow", **QUICK)
    assert list(tmp_path.iterdir()) == []
