"""Tests of the checks of PPO's settings."""

import re

import numpy as np
import pytest

from tests.algorithms.cases import collect, make_ppo, update
from tfagents_batch.algorithms import ppo
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.schedules import Constant, Linear


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"epochs": 0}, "epochs is 0; expected at least 1"),
        ({"minibatch_size": 0}, "minibatch_size is 0; expected at least 1"),
        ({"gamma": 1.01}, "gamma is 1.01; expected at least 0 and at most 1"),
        ({"gae_lambda": 2}, "gae_lambda is 2.0; expected at least 0 and at most 1"),
        ({"clip_ratio": 0.0}, "clip_ratio is 0.0; expected more than 0"),
        ({"learning_rate": Linear(1e-3, -1e-3)}, "learning_rate is linear(0.001, -0"),
        ({"adam_epsilon": 0.0}, "adam_epsilon is 0.0; expected more than 0"),
        ({"gradient_norm": 0.0}, "gradient_norm is 0.0; expected more than 0"),
        ({"value_scale": -1.0}, "value_scale is -1.0; expected at least 0"),
        ({"value_clip": 0.0}, "value_clip is 0.0; expected more than 0"),
        ({"kl_target": 0.0}, "kl_target is 0.0; expected more than 0"),
        ({"kl_init_penalty": 0.0}, "kl_init_penalty is 0.0; expected more than 0"),
        ({"kl_adapt_low": 2.0}, "kl_adapt_low is 2.0; expected at most kl_adapt_high"),
        ({"kl_adapt_factor": 1.0}, "kl_adapt_factor is 1.0; expected more than 1"),
        ({"kl_cutoff_factor": -1.0}, "kl_cutoff_factor is -1.0; expected more than 0"),
        ({"kl_cutoff_scale": -1.0}, "kl_cutoff_scale is -1.0; expected at least 0"),
        ({"kl_stop": 0.0}, "kl_stop is 0.0; expected more than 0"),
        ({"sequence_length": 0}, "sequence_length is 0; expected at least 1"),
        ({"observation_clip": 0.0}, "observation_clip is 0.0; expected more than 0"),
        ({"value_target": "mc"}, "value_target is 'mc'; expected gae or return"),
        ({"kl_reduction": "row"}, "kl_reduction is 'row'; expected batch or sequence"),
        ({"normalize_advantage": "row"}, "expected true or false or batch"),
        ({"normalize_return": "reward"}, "expected true or false or per_step or clip"),
        ({"network": networks.Config(policy_scale=0.0)}, "network.policy_scale is 0.0"),
        ({"network": networks.Config(core="rnn")}, "expected none or gru or lstm"),
        ({"objective": "clp"}, "objective is 'clp'; expected clip or kl or both"),
        ({"entropy_scale": np.inf}, "entropy_scale is inf; expected"),
        ({"network": networks.Config(init_std=-1)}, "network.init_std is -1.0; expect"),
        ({"normalize_floor": 0.0}, "normalize_floor is 0.0; expected more than 0"),
        ({"normalize_epsilon": -1}, "normalize_epsilon is -1.0; expected at least 0"),
        ({"reward_clip": 0.0}, "reward_clip is 0.0; expected more than 0"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(UserError, match=re.escape(message)):
        make_ppo(**settings)


def test_settings_at_their_bounds_are_accepted():
    config = ppo.Config(
        gamma=0, gae_lambda=1, learning_rate=0, value_scale=0, entropy_scale=-0.1
    )
    assert config.check().learning_rate == Constant(0.0)
    assert ppo.Config().check() == ppo.Config()
    agent = make_ppo(learning_rate=1e-3, entropy_scale="linear(0.1, 0, 100)")
    assert np.isfinite(update(agent, collect(agent), 1)["loss/total"])


def test_a_minibatch_of_one_transition_cannot_standardize_advantages():
    for more in ({}, {"sequence_length": 1}):
        with pytest.raises(UserError, match="minibatch_size is 1 and normalize_adv"):
            make_ppo(minibatch_size=1, **more)
    for more in (
        {"normalize_advantage": "batch"},
        {"normalize_advantage": False},
        {"kl_reduction": "sequence"},
        {"network": networks.Config(core="gru")},
    ):
        make_ppo(minibatch_size=1, **more)
