"""Steps that a replay collects between updates: by default those of one training."""

import json
import math
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfagents_batch as tfb
from tests.algorithms.cases import assert_equal, train, variables
from tfagents_batch import config as configs
from tfagents_batch.algorithms import dqn, sac
from tfagents_batch.clocks import Ratio
from tfagents_batch.configs import named
from tfagents_batch.configs.named import PRESETS
from tfagents_batch.errors import UserError
from tfagents_batch.sources.replay_settings import ReplaySettings
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.log.logger import read_metrics
from tfagents_batch.training.run_folder import config_file

SMALL = {"network": {"hidden": [8]}, "batch_size": 8, "histograms": False}
TRAINING = {"train_every": 12, "train_updates": 5, "warmup_steps": 50}
BRIEF = {"replay": {"capacity": 400}, "compile": "off", "settings": SMALL | TRAINING}


def run(settings, **options):
    return RunConfig("dqn", settings=settings, **options)


def saved_steps(folder):
    return json.loads((Path(folder) / "config.json").read_text())["config"]["source"][
        "steps"
    ]


def updates(run):
    """Return the number of updates that a run has made, with ``log_every`` 1."""
    lines = read_metrics(run.logdir)
    return sum(int(x["grad/updates"]) for x in lines if "grad/updates" in x)


@pytest.mark.parametrize(
    ("train_every", "num_envs", "steps"),
    [(1, 1, 1), (4, 8, 1), (16, 1, 16), (16, 8, 2), (20, 8, 3), (256, 8, 32)],
)
def test_by_default_the_steps_of_one_training_are_collected(
    train_every, num_envs, steps
):
    checked = run(dqn.DQNConfig(train_every=train_every), num_envs=num_envs).check()
    assert checked.source.steps == steps
    assert checked.source.transitions(num_envs, None) == steps * num_envs


def test_steps_that_are_set_stay():
    chosen = run(dqn.DQNConfig(train_every=16), source=ReplaySettings(steps=1))
    assert chosen.check().source.steps == 1


def test_workers_of_a_pool_collect_as_many_steps_of_each_environment():
    checked = run(dqn.DQNConfig(train_every=64), num_envs=8).check()
    plan = checked.source.remote_plan(checked, 2)
    assert (plan.length, plan.streams) == (8, 4)


@pytest.mark.parametrize(
    ("preset", "steps"), [("dqn/cartpole", 32), ("sac/bipedalwalker", 8)]
)
def test_presets_that_set_no_steps_collect_those_of_the_zoo(preset, steps):
    assert PRESETS[preset]().check().source.steps == steps


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_number_of_updates_is_that_of_the_ratio_for_any_settings(data):
    """Restart rows are no steps, and a stop may come after any collect."""
    train_every, num_envs = (data.draw(st.integers(1, n)) for n in (300, 32))
    made, warmup = data.draw(st.integers(1, 50)), data.draw(st.integers(0, 500))
    own = dqn.DQNConfig(
        train_every=train_every, train_updates=made, warmup_steps=warmup
    )
    checked = run(own, num_envs=num_envs).check()
    size = checked.source.transitions(num_envs, None)
    assert size - num_envs < train_every <= size or size == num_envs
    ratio = checked.settings.accepts()["windows"].ratio
    assert ratio == Ratio(made, train_every, warmup)
    step = count = 0
    for _ in range(2):  # the second one is resumed where the first one stopped
        for _ in range(data.draw(st.integers(1, 8))):
            after = step + size - data.draw(st.integers(0, num_envs))
            due = ratio.due(*(tf.constant(x, tf.int64) for x in (warmup, step, after)))
            step, count = after, count + int(due)
    assert count == max(0, (step - warmup) * made // train_every)


# The environments of the second case make no whole training.
@pytest.mark.parametrize(
    ("num_envs", "steps"), [(2, 6), pytest.param(5, 3, marks=pytest.mark.slow)]
)
def test_a_stopped_and_resumed_run_makes_the_updates_of_a_straight_one(
    num_envs, steps, tmp_path
):
    options = BRIEF | {"num_envs": num_envs, "log_every": 1}
    straight = train("dqn", tmp_path / "straight", steps=200, **options)
    options["replay"] = {"capacity": 400, "steps": steps}  # the default, see straight
    stopped = train("dqn", tmp_path / "stopped", steps=100, **options)
    for each in straight, stopped:
        assert updates(each) == (each.step - 50) * 5 // 12
    resumed = tfb.train(resume=stopped.logdir, steps=200)
    assert (resumed.step, updates(resumed)) == (straight.step, updates(straight))
    assert_equal(variables(resumed), variables(straight))


def test_a_run_that_saved_its_steps_keeps_them(tmp_path):
    """As runs of earlier versions did, which saved the default of 1."""
    old = BRIEF | {"replay": {"capacity": 400, "steps": 1}, "num_envs": 2}
    old["log_every"] = 1
    straight = train("dqn", tmp_path / "straight", steps=120, **old)
    assert {x["grad/updates"] for x in read_metrics(straight.logdir)[-20:]} <= {0, 1}
    stopped = train("dqn", tmp_path / "stopped", steps=80, **old)
    assert saved_steps(stopped.logdir) == 1
    resumed = tfb.train(resume=stopped.logdir, steps=120)
    assert_equal(variables(resumed), variables(straight))
    lines = read_metrics(resumed.logdir)
    assert {x["grad/updates"] for x in lines[-30:]} <= {0, 1} and lines[-1]["step"] > 80
    again = named.find(str(stopped.logdir)).config
    assert again.check().source.steps == 1


def test_the_default_is_saved_as_none_and_follows_the_environments(tmp_path):
    chosen = run(dqn.DQNConfig(train_every=16), env="CartPole-v1", num_envs=1)
    text = config_file.to_text(chosen, None, None)
    saved, _ = config_file.from_text(text)
    assert saved.source.steps is None
    assert saved.check().source.steps == 16
    more = configs.replace(saved, {"num_envs": 8})
    assert more.check().source.steps == 2


def test_a_resumed_run_keeps_its_number_of_environments(tmp_path):
    stopped = train("dqn", tmp_path, steps=60, num_envs=1, **BRIEF)
    with pytest.raises(UserError, match="num_envs cannot change when a run is resumed"):
        tfb.train(resume=stopped.logdir, num_envs=2, steps=100)


def test_evaluations_and_lines_come_after_the_first_collect_that_reaches_them(
    tmp_path,
):
    cadence = {"eval_every": 40, "eval_episodes": 1, "log_every": 25}
    trained = train("dqn", tmp_path, steps=200, num_envs=1, **BRIEF | cadence)
    lines = read_metrics(trained.logdir)
    reached = [x["step"] for x in lines if "replay/size" in x]
    played = [x["step"] for x in lines if "eval/return_mean" in x]
    for found, every in (reached, 25), (played, 40):
        for before, step in zip([0, *found], found[:-1], strict=False):
            assert before + every <= step < before + every + 12


@pytest.mark.parametrize("num_envs", [1, 8])
def test_the_default_is_not_shown_as_changed(num_envs):
    for own, name in (dqn.DQNConfig(train_every=16), "dqn"), (sac.SACConfig(), "sac"):
        checked = RunConfig(name, settings=own, num_envs=num_envs).check()
        shown = config_file.with_defaults(checked)["replay.steps"]
        assert shown.value == math.ceil(own.train_every / num_envs)
        assert not shown.is_changed
    chosen = run(dqn.DQNConfig(), source=ReplaySettings(steps=7)).check()
    assert config_file.with_defaults(chosen)["replay.steps"].is_changed
