import contextlib
import dataclasses
import itertools
import math
import os
import pathlib
import signal
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support import linear
from tests.support.lines import without_times
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import (
    EnvError,
    SaveError,
    Stopped,
    TrainingError,
    UserError,
)
from tfagents_batch.metrics import Mean, Sum
from tfagents_batch.sources import rollout_settings
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.callbacks import Callbacks
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.evaluate import Evaluation
from tfagents_batch.training.loop import Loop, Outputs

pytestmark = pytest.mark.usefixtures("linear")

BASE = RunConfig(
    algorithm="linear",
    env="counting",
    steps=400,
    num_envs=2,
    num_workers=0,
    source=rollout_settings.RolloutSettings(length=25),
    eval_every=150,
    eval_episodes=2,
    log_every=100,
    compile="off",
    settings=linear.Config(),
)


QUIET = dataclasses.replace(BASE, eval_every=0)


class FakeInterrupts:
    """Requests to stop, or to save, after given numbers of iterations."""

    def __init__(self, records, stop_after=None, save_after=()):
        self._records = records
        self._stop_after, self._save_after = stop_after, save_after
        self.seconds_left = math.inf

    def rescue(self, save):
        return contextlib.nullcontext()

    @property
    def requested(self):
        done = len(self._records.progress)
        return self._stop_after is not None and done >= self._stop_after

    @property
    def checkpoint_requested(self):
        return len(self._records.progress) in self._save_after


class FakeProgram:
    """Rounds of 45 steps and ten episodes; ``fails`` may raise after a call."""

    mode, reason, failed = "off", "", False

    def __init__(self, fails):
        self.step, self.rounds, self._fails = 0, 0, fails

    def __call__(self, until, rounds):
        losses = []
        while len(losses) < rounds and (self.step < until or not losses):
            self.step += 45
            losses.append(float(self.step))
        self.rounds = len(losses)
        self._fails(self.step)
        loss = Mean(sum(losses), self.rounds)
        return {"loss/total": loss, "episode/count": Sum(10 * self.rounds)}

    def traces(self):
        return 1


class FakeExperiment:
    """An experiment with a fake program and evaluations with these mean returns."""

    source, saver = None, SimpleNamespace(origin=dict)
    envs = ()
    named_variables = run_variables = staticmethod(dict)
    events = staticmethod(list)

    def __init__(self, config=BASE, returns=(), fails=lambda step: None, clips=None):
        self.config, self._returns, self.clips = config, iter(returns), clips
        self.program = FakeProgram(fails)

    def start(self, step):
        self.program.step = step

    def evaluator(self, seed, stop, step):
        if stop():
            return None
        return Evaluation(np.array([next(self._returns, 3.0)]), np.array([5]))


class Records:
    def __init__(self, grouped=False):
        self.lines, self.saved, self.progress, self.events = [], [], [], []
        # With a callback of iterations, each one is a call of the program.
        seen = None if grouped else lambda iterated: None
        self.callbacks = Callbacks(pathlib.Path(), on_iteration=seen)
        self.messages, self.videos = [], []
        self.message = self.note = self.messages.append

    def update(self, step, metrics):
        self.progress.append(step)

    def video(self, name, frames, step, fps):
        self.videos.append((name, step, len(frames), fps))

    def write(self, metrics, step):
        self.lines.append((step, metrics))

    def check(self, metrics, step):
        return []

    def save(self, step, variables, state, metadata):
        self.saved.append((step, state, metadata))
        return pathlib.Path()

    def event(self, kind, step, **fields):
        self.events.append((step, {"event": kind} | fields))

    def loop(self, experiment=None, state=None, **requests):
        """Return the loop of a run, whose log, console and checkpoints this is."""
        interrupts = FakeInterrupts(self, **requests)
        outputs = Outputs(self, self, self, self.callbacks)
        parts = interrupts, outputs, pathlib.Path(), state, self.save
        return Loop(experiment or FakeExperiment(), *parts)

    def run(self, experiment, state=None, **requests):
        loop = self.loop(experiment, state, **requests)
        self.finished = loop.run()
        return loop

    def train(self, config=BASE, make=CountingEnv):
        with Experiment(config, config.recipe(make)) as experiment:
            return self.run(experiment)


def ran(config=BASE, state=None, grouped=False, **requests):
    """Return the records of a run of the fake experiment."""
    records = Records(grouped)
    records.run(FakeExperiment(config), state, **requests)
    return records


@pytest.fixture(scope="module")
def whole(linear):
    """Return the records and the loop of a run of all steps."""
    records = Records()
    return records, records.train()


def test_training_ends_after_the_iteration_that_reaches_the_steps(whole):
    records, loop = whole
    per_iteration = records.progress[0]
    assert 40 <= per_iteration <= 50  # 2 x 25 less the restarts
    assert records.finished
    assert loop.step >= 400
    assert records.progress[-2] < 400
    assert records.progress[-1] == loop.step


def test_lines_are_written_when_due_and_at_the_end(whole):
    records, _ = whole
    trained = [step for step, line in records.lines if "loss/total" in line]
    assert trained[-1] == records.progress[-1]
    assert all(b - a >= 100 for a, b in itertools.pairwise(trained[:-1]))
    line = records.lines[0][1]
    assert line["episode/return_mean"] == 15
    assert line["episode/length_mean"] == 5
    assert records.lines[-1][1]["time/elapsed_seconds"] > 0
    speeds = [line.get("time/env_steps_per_second") for _, line in records.lines]
    assert max(speed for speed in speeds if speed is not None) > 0


def test_evaluations_run_when_due_and_at_the_end(whole):
    records, _ = whole
    steps = [step for step, line in records.lines if "eval/return_mean" in line]
    assert len(steps) == 3
    assert steps[-1] == records.progress[-1]
    line = next(line for _, line in records.lines if "eval/return_mean" in line)
    assert line["eval/return_mean"] == 15
    assert line["eval/episodes"] == 2


def test_the_time_share_of_evaluations_continues_after_a_resume():
    records = Records()
    result = Evaluation(np.array([1.0]), np.array([5]))
    saved = None
    for seconds, took in ((9.0, 1.0), (17.0, 2.0)):
        loop = records.loop(state=saved)
        loop.step, loop.seconds = int(seconds), seconds
        loop.evaluated(result, took)
        loop.checkpoint()
        saved = records.saved[-1][1]
    lines = [line for _, line in records.lines]
    assert [line["time/eval_share"] for line in lines] == [0.1, 0.15]
    assert lines[0]["time/eval_seconds"] == 1.0


def below_best(*evaluated):
    """Return the ``below_best`` events of evaluations ``(step, mean return)``."""
    records, state = Records(), None
    for step, mean in evaluated:
        loop = records.loop(state=state)  # as if it were resumed each time
        loop.step = step
        returns = np.array([mean - 1, mean + 1])  # standard error 0.7
        loop.evaluated(Evaluation(returns, np.array([5, 5])), 1.0)
        state = loop.state()
    return [event for _, event in records.events if event["event"] == "below_best"]


def test_a_run_that_ends_below_its_best_evaluation_says_so():
    (event,) = below_best((100, 2.0), (200, 7.0), (BASE.steps, 3.0))
    assert (event["last"], event["best"], event["best_step"]) == (3.0, 7.0, 200)
    assert below_best((200, 7.0), (BASE.steps, 7.0)) == []
    assert below_best((200, 7.0), (BASE.steps, 6.4)) == []  # by chance
    assert below_best((100, 7.0), (200, 3.0)) == []  # not the end yet


def test_a_stop_between_iterations_writes_a_line_and_a_checkpoint():
    records = ran(dataclasses.replace(QUIET, log_every=1000), stop_after=3)
    assert not records.finished
    assert records.progress == [45, 90, 135]
    # The first iteration is saved, too: the process might have been killed.
    assert [step for step, *_ in records.saved] == [45, 135]
    ((step, line),) = records.lines
    assert step == 135
    assert line["episode/count"] == 30  # of the three iterations
    assert records.saved[-1][1]["log"] == {"last": 0}  # the clock did not change


def test_a_requested_checkpoint_is_written_without_an_evaluation():
    records = ran(dataclasses.replace(QUIET, checkpoint_every=0.0), save_after=(2,))
    assert records.finished
    assert [step for step, *_ in records.saved] == [90, records.progress[-1]]
    assert not any("eval/return_mean" in line for _, line in records.lines)


def test_a_better_evaluation_is_saved_as_best_but_never_nan():
    records = Records()
    config = dataclasses.replace(BASE, eval_every=80)
    records.run(FakeExperiment(config, [np.nan, 3.0, 2.0, np.nan, 4.0]))
    evaluated = [step for step, line in records.lines if "eval/return_mean" in line]
    best = [step for step, _, metadata in records.saved if metadata["best"]]
    assert len(evaluated) == 5
    assert best == [evaluated[1], evaluated[4]]
    assert records.saved[-1][1]["best"] == 4


def test_a_stopped_evaluation_is_repeated_by_the_resumed_run(monkeypatch):
    monkeypatch.setattr(FakeExperiment, "evaluator", lambda *_: None)
    records = ran(stop_after=5)
    assert records.saved[-1][1]["evaluate"] == {"last": 0}


@pytest.mark.parametrize("best_before", [None, 5.0])
def test_a_stopped_last_evaluation_is_repeated_by_the_resumed_run(best_before):
    config = dataclasses.replace(BASE, steps=40, keep_every=40)
    first = ran(config, stop_after=1)
    assert not first.finished
    step, state, _ = first.saved[-1]
    second = ran(config, state | {"best": best_before, "best_step": 0})
    assert second.finished
    assert second.progress == []
    ((evaluated, line),) = second.lines
    assert (evaluated, line["eval/return_mean"]) == (step, 3.0)
    ((saved, state, marks),) = second.saved
    assert saved == step
    assert marks == {"best": best_before is None, "keep": True}
    third = ran(config, state)
    assert third.finished
    assert third.lines == third.saved == []


def test_a_resumed_loop_continues_its_step_and_clocks():
    step, state, _ = ran(dataclasses.replace(BASE, steps=200)).saved[-1]
    second = ran(state=state)
    assert second.progress[0] > step
    assert second.lines[0][0] - state["log"]["last"] >= 100
    assert second.lines[0][1]["time/elapsed_seconds"] > state["trained_seconds"]


def test_a_failure_is_raised_after_earlier_training_is_saved():
    def fails(step):
        if step > 200:
            raise EnvError("simulator gone")

    records = Records()
    experiment = FakeExperiment(QUIET, fails=fails)
    with pytest.raises(EnvError, match="simulator gone"):
        records.run(experiment)
    assert records.saved[-1][0] == records.lines[-1][0] == experiment.program.step


def test_a_stop_after_the_update_saves_the_new_step_and_weights():
    """Environments may be stopped during an update that completes."""

    def fails(step):
        if step == 90:
            raise Stopped("seen when the program had returned")

    records = Records()
    loop = records.run(FakeExperiment(QUIET, fails=fails))
    assert not records.finished
    assert records.progress == [45] and loop.step == 90
    step, state, _ = records.saved[-1]
    assert step == state["step"] == 90


def test_a_last_checkpoint_that_cannot_be_saved_is_an_error():
    records = Records()

    def full(*_, **options):
        raise SaveError("the disk is full")

    records.save = full
    with pytest.raises(SaveError, match="last checkpoint"):
        records.run(FakeExperiment(QUIET))


def test_a_callback_ends_training_with_a_checkpoint():
    records = Records()
    records.callbacks = Callbacks(pathlib.Path(), on_iteration=lambda iterated: False)
    loop = records.run(FakeExperiment(QUIET))
    assert records.finished and loop.step == records.saved[-1][0] == 45


@pytest.mark.parametrize("what", ["on_iteration", "on_evaluation", "on_checkpoint"])
def test_a_callbacks_exception_is_raised_after_a_checkpoint(what):
    def bad(event):
        raise KeyError("of the user")

    records, experiment = Records(), FakeExperiment()
    records.callbacks = Callbacks(pathlib.Path(), **{what: bad})
    with pytest.raises(KeyError, match="of the user"):
        records.run(experiment)
    step, _, marks = records.saved[-1]
    assert step == experiment.program.step
    assert marks["best"] == (what == "on_evaluation")  # the first one is the best


def test_sigusr1_before_training_starts_is_harmless():
    def make():
        os.kill(os.getpid(), signal.SIGUSR1)
        return CountingEnv()

    with Experiment(QUIET, QUIET.recipe(make)):
        pass


class Unwritable:
    """A replay of which nothing can be written."""

    def __init__(self, *arguments):
        pass

    def due(self):
        return False

    def save(self, step, seconds_left):
        return False


def test_a_last_replay_that_cannot_be_saved_is_an_error(monkeypatch):
    monkeypatch.setattr("tfagents_batch.training.loop.ReplaySaver", Unwritable)
    records = Records()
    with pytest.raises(SaveError, match=r"the replay of step .* could not be saved"):
        records.run(FakeExperiment(QUIET))
    assert records.saved[-1][0] == records.progress[-1]


def test_a_replay_that_was_refused_is_not_saved(monkeypatch):
    monkeypatch.setattr("tfagents_batch.training.loop.ReplaySaver", pytest.fail)

    def refuse():
        raise UserError("the replay is damaged")

    records = Records()
    loop = records.loop(FakeExperiment(QUIET), {"step": 90})
    with pytest.raises(UserError, match="the replay is damaged"):
        loop.run(refuse)
    assert records.saved == records.lines == []


def test_training_ends_when_no_gradient_is_finite():
    class Poisoned(CountingEnv):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, 1e30, *rest

    records = Records()
    with pytest.raises(TrainingError, match="no gradient was finite in the last 3 of"):
        records.train(QUIET, Poisoned)
    assert len(records.progress) == 2
    assert records.lines[-1][1]["grad/skipped"] == 1


def skipped(number, updates=None):
    updates = number if updates is None else updates
    return {"grad/skipped": Mean(float(number), updates)}


def loop_at(step):
    loop = Records().loop()
    loop.step = step
    return loop


def test_updates_without_a_finite_gradient_are_counted_not_rounds():
    loop = loop_at(90)
    loop.add(skipped(1))
    loop.add(skipped(0))  # no update
    loop.add(skipped(1))
    loop.add(skipped(7, 8))  # one of them was finite
    loop.add(skipped(2))
    with pytest.raises(TrainingError, match="no gradient was finite in the last 3 of"):
        loop.add(skipped(1))


def test_training_without_any_finite_gradient_never_counts_as_finished():
    loop = loop_at(BASE.steps)
    with pytest.raises(TrainingError, match="no gradient was finite in the last 1 of"):
        loop.add(skipped(1))
    loop = loop_at(90)
    loop.add(skipped(0, 1))
    loop.step = BASE.steps
    loop.add(skipped(1))
    assert loop.done


class FakeClips:
    """Fake clips of two pictures, or an error to raise."""

    fps = 7.0

    def __init__(self, error=None):
        self.seeds, self._error = [], error

    def __call__(self, seed, stop):
        self.seeds.append(seed)
        if self._error:
            raise self._error
        return np.zeros([2, 4, 4, 3], np.uint8), {"return": 3.0, "ended": True}


FILMED = dataclasses.replace(QUIET, log_video_every=100)


@pytest.mark.parametrize("grouped", [False, True])
def test_clips_are_logged_periodically_with_other_seeds(grouped):
    records, clips = Records(grouped), FakeClips()
    records.run(FakeExperiment(FILMED, clips=clips))
    steps = (45, 180, 315)
    assert records.videos == [("video/episode", step, 2, 7.0) for step in steps]
    assert (45, {"event": "video", "return": 3.0, "ended": True}) in records.events
    assert len(set(clips.seeds)) == 3


def test_a_clip_that_fails_is_one_warning_and_training_continues():
    records, clips = Records(), FakeClips(ImportError("no pygame"))
    records.run(FakeExperiment(FILMED, clips=clips))
    assert records.finished and len(clips.seeds) == 1
    assert "warning: no more videos, training continues: no pygame" in records.messages


def test_the_compiled_part_and_the_reason_are_logged_once(whole):
    records, _ = whole
    (event,) = [e for _, e in records.events if e["event"] == "compiled"]
    expected = {"compile": "off", "reason": "set by the user", "program": "traced"}
    assert event == {"event": "compiled", **expected}


def test_the_program_that_xla_refused_is_not_described():
    """XLA refused all of the stored program, so another one was traced."""
    records, experiment = Records(), FakeExperiment(QUIET)
    experiment.saver = SimpleNamespace(origin=lambda: {"program": "kept"})
    experiment.program.mode = "update"
    records.run(experiment)
    (event,) = [e for _, e in records.events if e["event"] == "compiled"]
    assert event["program"] == "traced"


def test_calls_of_several_iterations_write_the_same_lines(monkeypatch):
    """A line is the same whether its iterations were one call or several."""
    monkeypatch.setattr("tfagents_batch.training.loop.SECONDS", 1e9)
    config = dataclasses.replace(QUIET, steps=2000, log_every=900)
    one, many = ran(config), ran(config, grouped=True)
    assert len(many.progress) < len(one.progress) / 3
    assert [step for step, _ in many.lines] == [step for step, _ in one.lines]
    lines = [without_times([line for _, line in each.lines]) for each in (one, many)]
    assert lines[0] == lines[1]
    assert many.saved[-1][0] == one.saved[-1][0]


def test_slow_iterations_are_not_joined_in_one_call(monkeypatch):
    monkeypatch.setattr("tfagents_batch.training.loop.SECONDS", 0.0)
    config = dataclasses.replace(QUIET, log_every=1000)
    one, many = ran(config), ran(config, grouped=True)
    assert many.progress == one.progress == [*range(45, 406, 45)]
