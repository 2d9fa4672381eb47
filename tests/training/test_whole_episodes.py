"""Training on whole episodes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

import tfagents_batch as tfb
from tests.support.lines import of_the_seed, stopped_early
from tfagents_batch.algorithms import ppo
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.sources import rollout_settings
from tfagents_batch.training.assembly import Experiment
from tfagents_batch.training.config import RunConfig
from tfagents_batch.training.log.logger import read_metrics

SMALL = {
    "steps": 300,
    "num_envs": 3,
    "rollout.episodes": 6,
    "num_workers": 0,
    "eval_every": 0,
    "log_every": 1,
    "compile": "off",
}
pytestmark = pytest.mark.usefixtures("linear")
PENDULUM = {"env": "Pendulum-v1", "env_kwargs": {"max_episode_steps": 20}}
CARTPOLE = {"env": "CartPole-v1", "env_kwargs": {"max_episode_steps": 50}}


def train(tmp_path, **options):
    return tfb.train("linear", logdir=tmp_path, **{**SMALL, **options})


@pytest.mark.any_backend
@pytest.mark.parametrize(
    "where",
    [
        {"num_workers": 0},
        {"num_workers": 2},
        {"env": "tf/Pendulum-v1", "num_workers": None},
    ],
)
def test_an_iteration_has_the_same_number_of_episodes_everywhere(tmp_path, where):
    run = train(tmp_path, **{**PENDULUM, **where, "compile": "auto"})
    lines = read_metrics(run.logdir)
    # Six episodes of twenty steps each; padding is not counted.
    assert [line["step"] for line in lines] == [120, 240, 360]
    for line in lines:
        assert line["episode/length_mean"] == 20
        assert line["env/masked"] == pytest.approx(0, abs=1e-6)
        assert line["env/idle_steps"] == 0
        assert line["env/missing_episodes"] == 0
    assert run.finished and run.step == 360


def test_padding_and_idle_steps_are_not_counted(tmp_path):
    run = train(tmp_path, **CARTPOLE)
    lines = read_metrics(run.logdir)
    steps = np.diff([0, *(line["step"] for line in lines)])
    lengths = [6 * line["episode/length_mean"] for line in lines]
    np.testing.assert_allclose(steps, lengths, rtol=1e-6)
    masked = [1 - n / (6 * 50) for n in steps]
    np.testing.assert_allclose([line["env/masked"] for line in lines], masked, 1e-4)
    assert max(line["env/idle_steps"] for line in lines) > 0
    evaluated = tfb.evaluate(run.logdir, episodes=5)
    assert evaluated.episodes == 5 and evaluated.mean_return > 5


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(CARTPOLE, marks=pytest.mark.slow),
        {**CARTPOLE, "env": "tf/CartPole-v1", "num_workers": None},
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, env):
    """Every iteration starts new episodes, so no state of environments is lost."""
    whole = train(tmp_path / "whole", **{**env, "steps": 600, "keep_every": 300})
    resumed = tfb.train(resume=stopped_early(whole, tmp_path / "half"))
    assert resumed.step == whole.step
    assert of_the_seed(resumed) == of_the_seed(whole)
    # The resumed run does not repeat earlier episodes.
    returns = [line["episode/return_mean"] for line in of_the_seed(resumed)]
    assert len(set(returns)) > len(returns) / 2


def test_episodes_are_collected_during_the_update_with_overlap(tmp_path):
    def run():
        return train(tmp_path, **{**CARTPOLE, "overlap": True})

    first, second = run(), run()
    assert first.finished
    assert of_the_seed(first) == of_the_seed(second)
    lines = read_metrics(first.logdir)
    assert [line["lag/updates"] for line in lines[:2]] == [0, 1]
    assert all("env/idle_steps" in line for line in lines)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"rollout.episodes": 7},
            "rollout.episodes is 7; expected a multiple of the 3 env",
        ),
        ({"rollout.episodes": 0}, "rollout.episodes is 0; expected at least 1"),
        ({"rollout.length": 20}, "rollout.length is 20 and rollout.episodes is 6"),
        ({"env": CountingEnv}, "no common time limit"),
    ],
)
def test_invalid_options_are_refused_before_a_folder_exists(tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        train(tmp_path, **{"env": "CartPole-v1", **options})
    assert not list(tmp_path.iterdir())


def test_an_option_replaces_that_of_a_preset(tmp_path):
    options = {k: v for k, v in SMALL.items() if k != "rollout.episodes"}
    source = rollout_settings.RolloutSettings(episodes=6)
    whole = RunConfig("linear", env="CartPole-v1", source=source)
    run = tfb.train(config=whole, rollout={"length": 50}, logdir=tmp_path, **options)
    assert read_metrics(run.logdir)[0]["env/masked"] < 0.2  # no padding
    assert "env/idle_steps" not in run.metrics


WHOLE = RunConfig(
    env="mine",
    num_envs=2,
    source=rollout_settings.RolloutSettings(episodes=4),
    num_workers=0,
    eval_every=0,
    compile="off",
    settings=ppo.PPOConfig(
        minibatch_size=None,
        epochs=1,
        histograms=False,
        network=networks.NetworkConfig(hidden=(4,)),
    ),
)


class Jackpot(CountingEnv):
    """Rewards of 0.01, and 50 in one step."""

    def __init__(self, step, length):
        super().__init__(length=length)
        self._won = step

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, 50.0 if reward == self._won else 0.01, *rest


def test_every_step_of_an_episode_counts_once_in_statistics():
    """Also one at the time limit, but no padding."""
    kinds = ((12, 10**9, 12), (2, 3, 3))  # with the lengths of episodes
    envs = [
        lambda won=won, length=length: TimeLimit(Jackpot(won, length), 12)
        for won, length, _ in kinds
    ]
    with Experiment(WHOLE, WHOLE.recipe(envs)) as experiment:
        experiment.start(0)
        metrics = experiment.program(2**62, rounds=1)
        learner = experiment.algorithm.learner
        assert experiment.program.step == 2 * (12 + 3)
    rewards = [
        [50.0 if step == won else 0.01 for step in range(1, length + 1)]
        for won, _, length in kinds
    ]
    assert metrics["episode/count"].value == 4
    assert metrics["episode/return_mean"].sum == pytest.approx(200.26)
    (moments,) = learner.observations.moments
    # With the last of an episode, but not at the end of the rollout.
    assert float(moments.count.numpy()) == 2 * (12 + 4)
    mean = np.mean([*range(12), *range(4)])
    np.testing.assert_allclose(moments.mean.numpy(), [0.5, mean], 1e-6)
    assert float(learner.rewards.moments.count.numpy()) == 30
    running = [
        itertools.accumulate(each, lambda total, x: 0.99 * total + x)
        for each in rewards
    ]
    expected = np.std([*itertools.chain(*running)] * 2, ddof=1)
    assert metrics["normalize/reward_std"].sum == pytest.approx(expected, 1e-5)
