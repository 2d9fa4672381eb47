"""Tests of batch-ppo's networks as settings; ``test_presets`` counts more weights."""

import re

import keras
import numpy as np
import pytest
from gymnasium import spaces as gs

from tests.nn.cases import VECTOR, make_spec, make_steps
from tfagents_batch import config
from tfagents_batch.algorithms import ppo
from tfagents_batch.configs import batch_ppo
from tfagents_batch.nn import networks
from tfagents_batch.settings import parsing

NETWORKS = {
    "feed_forward": batch_ppo.feed_forward(),
    "recurrent": batch_ppo.recurrent(),
}


def box(size):
    return gs.Box(-1, 1, (size,))


def build(name, observation, action):
    return networks.actor_critic(make_spec(observation, action), NETWORKS[name])


@pytest.mark.parametrize(
    "name, inputs, action, count",
    [
        ("recurrent", 3, box(1), 112_203),  # Pendulum
        ("recurrent", 17, box(6), 118_313),  # HalfCheetah
        ("recurrent", 4, gs.Discrete(2), 42_503 - 201 * 100 + 300 * 301),
        ("feed_forward", 4, gs.Discrete(2), 42_503),
    ],
)
def test_networks_have_the_original_number_of_weights(name, inputs, action, count):
    network = build(name, box(inputs), action)
    assert network.count_params() == count
    if name == "recurrent":
        (state,) = network.initial_state(5)
        assert tuple(state.shape) == (5, 100)


@pytest.mark.parametrize("name", NETWORKS)
def test_means_lie_within_one_and_stds_start_at_035(name):
    keras.utils.set_random_seed(0)
    network = build(name, VECTOR, box(2))
    steps = make_steps(VECTOR, 2, 3)
    state = network.initial_state(3)
    for scale in (1, 1e6):
        scaled = steps._replace(observation=steps.observation * scale)
        policy = network.unroll(scaled, state)[0].policy
        assert np.all(np.abs(policy.mean) <= 1)
        np.testing.assert_allclose(policy.std, 0.35, atol=1e-6)
    np.testing.assert_allclose(network.trained_std, np.log(np.expm1(0.35)), rtol=1e-6)


def test_initial_kernels_are_as_published():
    keras.utils.set_random_seed(0)
    network = build("feed_forward", box(100), box(50))
    weights = [(v.path, v.numpy()) for v in network.trainable_variables]

    def kernel(path, *shape):
        pattern = re.compile(f"{path}.*kernel")
        (found,) = (x for k, x in weights if pattern.search(k) and x.shape == shape)
        return found

    hidden = kernel("policy_tower", 100, 200)
    limit = np.sqrt(6 / (100 + 200))
    assert 0.99 * limit < np.abs(hidden).max() <= limit
    mean = kernel("policy", 100, 50)
    assert np.std(mean) == pytest.approx(np.sqrt(0.1 / 100), rel=0.05)
    assert np.abs(kernel("value", 100, 1)).max() <= np.sqrt(6 / (100 + 1))
    biases = [x for k, x in weights if k.endswith("bias")]
    assert len(biases) == 6 and all(np.all(x == 0) for x in biases)


def test_flags_can_describe_the_recurrent_network():
    argv = [
        "--algorithm.network.hidden=200,100",
        "--algorithm.network.activation=relu",
        "--algorithm.network.initializer=glorot",
        "--algorithm.network.policy_scale=0.1",
        "--algorithm.network.mean=tanh",
        "--algorithm.network.std=softplus",
        "--algorithm.network.init_std=0.35",
        "--algorithm.network.core=gru",
        "--algorithm.network.value_core=none",
    ]
    (flags,) = parsing.parse(argv, [(ppo.PPOConfig, "algorithm")])
    assert config.replace(ppo.PPOConfig(), flags).network == batch_ppo.recurrent()
