"""Alarms, callbacks, videos and trackers of whole runs."""

import contextlib
import dataclasses
import importlib
import io
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces as gs
from tensorboard.backend.event_processing.plugin_event_accumulator import (
    EventAccumulator,
)

import tfagents_batch as tfb
from tests.support.brief import QUICK
from tests.support.linear import Config
from tests.support.lines import of_the_seed, saved
from tests.training.log.test_trackers import fake_packages
from tests.training.test_clips import Falling, Shown
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Limit
from tfagents_batch.training import training_run
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.log.logger import read_events
from tfagents_batch.types import EnvSpec

EVALUATED = QUICK | {"steps": 900, "eval_every": 300, "eval_episodes": 2}
EVALUATED |= {"checkpoint_every": 1e-6, "keep_every": 300}
pytestmark = pytest.mark.usefixtures("linear")


def train(env="CartPole-v1", **options):
    return tfb.train("linear", env=env, **options)


def events(run, kind):
    return [event for event in read_events(run.logdir) if event["event"] == kind]


@pytest.fixture(scope="module")
def watched(linear, tmp_path_factory):
    """Train with everything that watches a run; its last checkpoint is resumed.

    Every loss raises an alarm, and every iteration ends with a checkpoint.
    """
    alarm = Limit("much", "loss/total", "The loss is {loss/total:.3g}", above=-1e9)
    names = "iteration", "evaluation", "checkpoint"
    calls = {name: [] for name in names}
    callbacks = {f"on_{name}": calls[name].append for name in names[1:]}
    callbacks["on_iteration"] = [calls["iteration"].append]
    options = EVALUATED | {"logdir": tmp_path_factory.mktemp("logs"), "track": "wandb"}
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(printed):
        patch.setattr(Config, "alarms", lambda config, spec: (alarm,))
        patch.setattr(training_run, "remarks", lambda spec: ["note: of the spec"])
        init = fake_packages(patch)["wandb"].init
        run = train(Shown, **callbacks, **options)
        lines, before = of_the_seed(run), saved(run.logdir)
        alarms, log = events(run, "alarm"), init.return_value.log.call_args.args[0]
        settings = init.call_args.kwargs["config"]
        finishes = init.return_value.finish.call_count
        resume = {"resume": run.logdir, "env": Shown, "steps": 5000}
        resumed = tfb.train(**resume, on_checkpoint=lambda event: False)
    return SimpleNamespace(**locals())


def test_an_alarm_is_a_line_on_the_console_and_an_event(watched):
    (found,) = watched.alarms
    assert f"alarm: {found['text']}" in watched.printed.getvalue()
    assert events(watched.resumed, "alarm") == [found]  # not again


def test_a_run_says_at_its_start_which_images_go_to_no_cnn(watched):
    assert "note: of the spec\n" in watched.printed.getvalue()
    image = gs.Dict(camera=gs.Box(-np.inf, np.inf, (8, 8, 1), np.float32))
    (line,) = training_run.remarks(EnvSpec(1, image, gs.Discrete(2), {}, None))
    assert line.startswith("note: observation['camera'] has shape (8, 8, 1), like an i")


def test_minibatches_larger_than_an_update_are_said():
    spec = EnvSpec(8, gs.Box(-1, 1, (2,)), gs.Discrete(2), {}, None)
    config = RunConfig()  # 8 environments of 256 steps
    assert training_run.large_minibatch(config, spec) == []
    settings = dataclasses.replace(config.settings, minibatch_size=100_000)
    config = dataclasses.replace(config, settings=settings)
    (line,) = training_run.large_minibatch(config, spec)
    assert "minibatch_size is 100,000, but an update has 2,048 transitions" in line


def test_callbacks_see_iterations_evaluations_and_checkpoints(watched):
    iterations, evaluations, checkpoints = watched.calls.values()
    steps = [event.step for event in iterations]
    assert steps == [line["step"] for line in watched.lines if "env/masked" in line]
    assert all("loss/total" in event.metrics for event in iterations)
    assert any("episode/return_mean" in event.metrics for event in iterations)
    assert evaluations[0].best
    last = f"step-{watched.run.step:012d}"
    assert {call.path.name for call in checkpoints} >= {last}
    assert all(call.path.parent.parent == call.folder for call in checkpoints)
    assert checkpoints[0].step == steps[0]  # after the first iteration
    assert any(event.best for event in checkpoints)


def test_a_callback_ends_training_with_a_checkpoint(watched):
    run = watched.resumed
    assert run.finished
    assert watched.run.step < run.step < 2000
    assert max(saved(run.logdir)) == run.step
    assert [event["event"] for event in read_events(run.logdir)][-2:] == [
        "stopped_by_callback",
        "finished",
    ]


def test_a_run_whose_callback_raises_has_failed_and_is_resumed(tmp_path):
    def bad(event):
        raise KeyError("of the user")

    with pytest.raises(KeyError, match="of the user"):
        train(logdir=tmp_path, on_iteration=bad, **QUICK)
    (folder,) = tmp_path.iterdir()
    end = read_events(folder)[-1]
    assert (end["event"], end["error"]) == ("failed", "KeyError")
    assert "of the user" in end["text"]
    assert [*saved(folder)] == [end["step"]] and end["step"] > 0
    run = tfb.train(resume=folder, steps=QUICK["steps"])
    assert run.finished and run.step > end["step"]


def test_permanent_checkpoints_are_not_deleted(watched):
    permanent = [step for step, each in watched.before.items() if each["keep"]]
    assert len(permanent) == 2
    assert 300 <= permanent[0] <= permanent[1] - 300
    assert len({*watched.before} - {*permanent}) <= 3
    assert set(permanent) < set(saved(watched.resumed.logdir))
    options = {"checkpoint": permanent[0], "env": Shown}
    assert tfb.evaluate(watched.run.logdir, 2, **options).episodes == 2


def test_a_tracker_gets_the_run_and_a_resumed_run_continues_there(watched):
    assert watched.settings["settings.gamma"] == 0.9
    assert watched.log["step"] == watched.run.step
    assert watched.finishes == 1
    assert watched.init.call_args.kwargs["resume"] == "allow"


def test_a_callback_that_would_never_be_called_is_refused(tmp_path):
    with pytest.raises(UserError, match="on_evaluation would never be called"):
        train(logdir=tmp_path, on_evaluation=print, **QUICK)
    assert list(tmp_path.iterdir()) == []


def test_training_ends_at_the_requested_return(tmp_path):
    options = QUICK | {"steps": 5000, "eval_every": 200, "eval_episodes": 2}
    run = train(logdir=tmp_path, stop_at_return=5, **options)
    assert run.finished
    assert run.step < 1000
    (event,) = events(run, "stopped_by_callback")
    assert event["name"] == "stop_at_return(5)"
    assert run.evaluate(episodes=2).mean_return > 0  # which evaluates nothing else
    assert run.load().action_space.n == 2
    with pytest.raises(UserError, match=r"stop_at_return is 5.*eval_every is 0"):
        train(logdir=tmp_path, stop_at_return=5, **QUICK)


@pytest.mark.parametrize("env", [pytest.param(Falling, marks=pytest.mark.slow), Shown])
def test_videos_are_in_tensorboard_and_do_not_affect_training(tmp_path, watched, env):
    options, expected = EVALUATED, watched.lines
    if env is Falling:
        options = EVALUATED | {"num_workers": None}
        expected = of_the_seed(train(env, logdir=tmp_path, **options))
    run = train(env, logdir=tmp_path / "film", log_video_every=300, **options)
    assert of_the_seed(run) == expected
    assert len(events(run, "video")) == 3
    accumulator = EventAccumulator(run.logdir, tensor_size_guidance={})
    accumulator.Reload()
    assert len(accumulator.Tensors("video/episode")) == 3


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


def test_a_missing_tracker_is_refused_before_a_folder_exists(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="needs mlflow"):
        train(logdir=tmp_path, track="mlflow", **QUICK)
    assert list(tmp_path.iterdir()) == []
