"""Logging of values from the environments' infos when episodes end."""

import json

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

import tfagents_batch as tfb
from tfagents_batch.errors import UserError
from tfagents_batch.metrics import Interval, Mean
from tfagents_batch.scripts import evaluate as script
from tfagents_batch.sources import metrics
from tfagents_batch.training.log.logger import read_metrics
from tfagents_batch.types import TimeStep, Trajectory

SMALL = {
    "steps": 400,
    "num_envs": 2,
    "rollout.length": 50,
    "log_every": 1,
    "compile": "off",
    "compile_cache": False,
}
pytestmark = pytest.mark.usefixtures("linear")


class Reporting(gymnasium.Wrapper):
    """Reports in the last step if an episode was long, and in every step a weight."""

    def step(self, action):
        *result, info = self.env.step(action)
        self.length += 1
        info = info | {"weight": 3}
        if result[2] or result[3]:
            info["is_success"] = self.length >= 20
        return (*result, info)

    def reset(self, **options):
        self.length = 0
        return self.env.reset(**options)


def make():
    return Reporting(gymnasium.make("CartPole-v1"))


def test_sums_and_counts_are_over_ended_episodes_with_a_value():
    nan = np.nan
    last = np.array([[0, 0], [1, 0], [0, 1], [1, 1], [0, 1]], bool)
    # The last row of the second environment is also a first one: it failed.
    first = np.array([[1, 1], [0, 0], [1, 0], [0, 1], [1, 1]], bool)
    score = np.array([[nan, 9], [2, 9], [9, nan], [4, 9], [9, 9]], np.float32)
    zeros = tf.zeros(last.shape)
    info = {"score": tf.constant(score)}
    flags = (tf.constant(x) for x in (first, last, np.zeros_like(last)))
    steps = TimeStep(zeros, zeros, *flags, info)
    found = metrics.episode_info_metrics(Trajectory(steps, zeros[1:], {}), ["score"])
    assert found == {"episode/score_mean": Mean(6.0, 2)}


def test_means_are_over_the_episodes_of_an_interval_not_over_iterations():
    interval = Interval()
    for total, count in [(1.0, 1), (0.0, 3), (0.0, 0)]:
        score = Mean(total, count)
        interval.add({"episode/score_mean": score, "loss/total": 1.0})
    assert interval.summary() == {"loss/total": 1.0, "episode/score_mean": 0.25}
    without_values = Interval()
    without_values.add({"episode/score_mean": Mean(0.0, 0)})
    assert without_values.summary() == {}


@pytest.mark.parametrize("options", [{"num_workers": 0}, {"overlap": True}])
def test_infos_of_training_and_of_evaluations_are_logged(options, tmp_path):
    evaluations = []
    run = tfb.train(
        "linear",
        env=make,
        log_info=["is_success", "weight", "missing"],
        eval_every=400,
        on_evaluation=evaluations.append,
        logdir=tmp_path,
        **SMALL | options,
    )
    lines = read_metrics(run.logdir)
    shares = [line["episode/is_success_mean"] for line in lines if "loss/total" in line]
    assert shares and 0 < np.mean(shares) < 1  # at random, half are longer than 20
    assert run.metrics["episode/weight_mean"] == 3
    assert run.metrics["eval/weight_mean"] == 3
    evaluated = evaluations[-1]
    expected = evaluated.lengths >= 20
    np.testing.assert_array_equal(evaluated.infos["is_success"], expected)
    assert (
        run.metrics["eval/is_success_mean"] == evaluated.metrics["eval/is_success_mean"]
    )
    assert not any("missing" in name for line in lines for name in line)


def test_evaluating_a_run_reports_its_infos(tmp_path, capsys):
    code = (
        "import gymnasium\n\n\n"
        "class Mine(gymnasium.Wrapper):\n"
        "    def __init__(self):\n"
        "        super().__init__(gymnasium.make('CartPole-v1'))\n\n"
        "    def step(self, action):\n"
        "        *result, info = self.env.step(action)\n"
        "        return (*result, info | {'is_success': result[3]})\n"
    )
    (tmp_path / "mine.py").write_text(code)
    env = f"{tmp_path}/mine.py:Mine"
    options = SMALL | {"num_workers": 0, "steps": 100, "eval_every": 0}
    run = tfb.train(
        "linear", env=env, log_info=["is_success"], logdir=tmp_path, **options
    )
    flags = [f"--logdir={run.logdir}", "--episodes=3", f"--env={env}"]
    assert script.main(flags) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["mean_is_success"] == float(printed["mean_length"] == 500)
    result = tfb.evaluate(run.logdir, 3, env=env)
    assert result.infos["is_success"].shape == (3,)


@pytest.mark.parametrize(
    ("name", "text"), [("return", "always logged"), ("a/b", "slashes"), (3, "keys")]
)
def test_names_that_cannot_be_logged_are_refused(name, text):
    with pytest.raises(UserError, match=f"log_info has .*{text}"):
        tfb.train(env="CartPole-v1", log_info=[name], **SMALL)


def test_environments_without_such_infos_are_refused():
    with pytest.raises(UserError, match="written in TensorFlow"):
        tfb.train(env="tf/CartPole-v1", log_info=["is_success"], **SMALL)
    batch = tfb.make_env(make, num_envs=2, num_workers=0)
    with batch, pytest.raises(UserError, match="the ProcessEnv that was passed"):
        tfb.train(env=batch, log_info=["weight"], eval_every=0, **SMALL)
