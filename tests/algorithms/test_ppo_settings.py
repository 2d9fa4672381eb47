"""Tests of the checks of PPO's settings."""

import re

import numpy as np
import pytest

from tests.algorithms.cases import collect, make_ppo, update
from tfagents_batch.algorithms import ppo
from tfagents_batch.algorithms.ppo_penalty import KLConfig
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.schedules import Constant, Linear
from tfagents_batch.settings import parsing


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"gamma": 1.01}, "gamma is 1.01; expected at least 0 and at most 1"),
        ({"learning_rate": Linear(1e-3, -1e-3)}, "learning_rate is linear(0.001, -0"),
        ({"entropy_scale": np.inf}, "entropy_scale is inf; expected"),
        (
            {"clip_ratio": Linear(0.2, -0.1)},
            "clip_ratio is linear(0.2, -0.1); expected",
        ),
        (
            {"kl": KLConfig(adapt_low=2.0)},
            "kl.adapt_low is 2.0; expected at most kl.adapt_high",
        ),
        (
            {"kl": KLConfig(adapt_factor=1.0)},
            "kl.adapt_factor is 1.0; expected more than 1",
        ),
        ({"drop_last": True, "minibatch_size": None}, "drop_last is true, but"),
        ({"objective": "clp"}, "objective is 'clp'; expected clip or kl or both"),
        ({"normalize_advantage": "row"}, "expected true or false or batch"),
        ({"normalize_return": "reward"}, "expected true or false or per_step or clip"),
        ({"network": networks.NetworkConfig(policy_scale=0.0)}, "policy_scale is 0.0"),
        ({"network": networks.NetworkConfig(core="rnn")}, "none or gru or lstm"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(UserError, match=re.escape(message)):
        ppo.PPOConfig(**settings).check()


def test_settings_at_their_bounds_are_accepted():
    bounds = ppo.PPOConfig(
        gamma=0, gae_lambda=1, learning_rate=0, value_scale=0, entropy_scale=-0.1
    )
    assert ppo.PPOConfig(clip_ratio="linear(0.2, 0)").check().clip_ratio.end == 0
    assert bounds.check().learning_rate == Constant(0.0)
    assert ppo.PPOConfig().check() == ppo.PPOConfig()
    agent = make_ppo(learning_rate=1e-3, entropy_scale="linear(0.1, 0, 100)")
    assert np.isfinite(update(agent, collect(agent), 1)["loss/total"])


def test_a_minibatch_of_one_transition_cannot_standardize_advantages():
    for more in ({}, {"sequence_length": 1}):
        with pytest.raises(UserError, match="minibatch_size is 1 and normalize_adv"):
            make_ppo(minibatch_size=1, **more)
    for more in (
        {"normalize_advantage": "batch"},
        {"normalize_advantage": False},
        {"kl": KLConfig(reduction="sequence")},
        {"network": networks.NetworkConfig(core="gru")},
    ):
        make_ppo(minibatch_size=1, **more)


def test_the_help_has_few_flags_and_those_of_the_penalty_where_it_is_used():
    parts = [(ppo.PPOConfig, "algorithm")]
    plain = parsing.help_text(parts)
    assert plain.count("  --algorithm.") <= 46 and "--algorithm.kl.target" not in plain
    used = parsing.help_text(parts, ["--algorithm.objective=both"])
    assert used.count("  --algorithm.kl.") == 8
