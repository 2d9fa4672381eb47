"""Settings of on-policy sources."""

import types

import pytest

import tfagents_batch as tfb
from tests.sources.cases import Counter
from tfagents_batch.errors import UserError
from tfagents_batch.sources.episodes import Episodes
from tfagents_batch.sources.rollout import Rollout
from tfagents_batch.sources.rollout_settings import RolloutSettings
from tfagents_batch.training.config import RunConfig, with_options


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rollout.length": 8}, RolloutSettings(length=8)),
        ({"rollout": {"length": 8}}, RolloutSettings(length=8)),
        ({"source": RolloutSettings(length=8)}, RolloutSettings(length=8)),
        ({"rollout.episodes": 6}, RolloutSettings(episodes=6)),
    ],
)
def test_dotted_and_nested_names_mean_the_same(options, expected):
    assert with_options(RunConfig(), options).source == expected


def test_an_unknown_setting_and_that_of_another_source_are_refused():
    with pytest.raises(UserError, match=r"rollout\.lenght.*did you mean.*length"):
        with_options(RunConfig(), {"rollout.lenght": 8})
    with pytest.raises(UserError, match=r"rollout\.length is 8 and .*episodes is 6"):
        with_options(RunConfig(), {"rollout": {"length": 8, "episodes": 6}})


def test_the_settings_decide_which_source_is_opened():
    run = RunConfig()
    agent = types.SimpleNamespace(policy=Counter())
    with tfb.make_env("tf/CartPole-v1", num_envs=2) as env:
        rollout = RolloutSettings(length=8).open((env,), agent, 0, run)
        assert isinstance(rollout, Rollout) and rollout.length == 8
        episodes = RolloutSettings(episodes=4).open((env,), agent, 0, run)
        assert isinstance(episodes, Episodes)
    assert RolloutSettings(length=8).transitions(2, 500) == 16
    assert RolloutSettings(episodes=4).transitions(2, 500) == 2000
