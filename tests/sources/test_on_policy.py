"""Settings of on-policy sources and their earlier names."""

import logging

import pytest

import tfagents_batch as tfb
from tests.sources.cases import Counter
from tfagents_batch.errors import UserError
from tfagents_batch.scripts import train as script
from tfagents_batch.sources.episodes import Episodes
from tfagents_batch.sources.on_policy import Config as OnPolicy
from tfagents_batch.sources.on_policy import make
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.training.run_flags import Config, with_options

SMALL = {"env": "tf/CartPole-v1", "steps": 16, "num_envs": 2, "eval_every": 0}
SMALL |= {"compile": "off", "compile_cache": False}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rollout_length": 8}, OnPolicy(length=8)),
        ({"rollout.length": 8}, OnPolicy(length=8)),
        ({"rollout": {"length": 8}}, OnPolicy(length=8)),
        ({"source": OnPolicy(length=8)}, OnPolicy(length=8)),
        ({"update_every": 6}, OnPolicy(episodes=6)),
        ({"rollout.episodes": 6}, OnPolicy(episodes=6)),
    ],
)
def test_earlier_names_and_nested_names_mean_the_same(options, expected):
    assert with_options(Config(), options).source == expected


def test_an_unknown_setting_and_that_of_another_source_are_refused():
    with pytest.raises(UserError, match=r"rollout\.lenght.*did you mean.*length"):
        with_options(Config(), {"rollout.lenght": 8})
    with pytest.raises(UserError, match=r"rollout\.length is 8 and .*episodes is 6"):
        with_options(Config(), {"rollout_length": 8, "update_every": 6})


def test_the_settings_decide_which_source_is_made():
    env = tfb.make_env("tf/CartPole-v1", num_envs=2)
    policy = Counter()
    made = make(OnPolicy(length=8), env, policy, 0, None)
    assert isinstance(made, Rollout) and made.length == 8
    assert isinstance(make(OnPolicy(episodes=4), env, policy, 0, None), Episodes)
    assert OnPolicy(length=8).collected(2, 500) == 16
    assert OnPolicy(episodes=4).collected(2, 500) == 2000


def test_an_earlier_flag_is_accepted_with_a_notice(linear, tmp_path, caplog):
    flags = [f"--{name}={value}" for name, value in SMALL.items()]
    flags += ["--algorithm=linear", f"--logdir={tmp_path}", "--rollout_length=8"]
    with caplog.at_level(logging.WARNING, "tfagents_batch"):
        assert script.main(flags) == 0
    assert "--rollout_length is now called --rollout.length" in caplog.messages


def test_an_earlier_option_of_train_is_accepted(linear, tmp_path):
    run = tfb.train(linear, rollout_length=4, logdir=tmp_path, **SMALL)
    assert run.finished and 16 <= run.step < 16 + 2 * 4
