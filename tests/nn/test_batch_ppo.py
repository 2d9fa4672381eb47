"""Tests of batch-ppo's networks, from builders and from settings."""

import re

import keras
import numpy as np
import pytest
from gymnasium import spaces as gs

from tests.nn.cases import ACTIONS, VECTOR, make_spec, make_steps
from tfagents_batch import config, nest
from tfagents_batch.algorithms import ppo
from tfagents_batch.errors import UserError
from tfagents_batch.nn import batch_ppo, networks

# Number of inputs, actions and weights of its networks on common tasks.
FEED_FORWARD = {
    "Pendulum": (3, 1, 42_003),
    "Reacher": (10, 2, 44_905),
    "Hopper": (11, 3, 45_407),
    "HalfCheetah": (17, 6, 48_113),
    "Ant": (105, 8, 83_517),
    "Humanoid": (348, 17, 181_635),
}
RECURRENT = {"Pendulum": (3, 1, 112_203), "HalfCheetah": (17, 6, 118_313)}


def box(size, bound=1):
    return gs.Box(-bound, bound, (size,))


@pytest.mark.parametrize("task", FEED_FORWARD)
def test_feed_forward_networks_have_the_original_number_of_weights(task):
    inputs, actions, count = FEED_FORWARD[task]
    network = batch_ppo.feed_forward_gaussian(box(inputs), box(actions))
    assert network.count_params() == count


@pytest.mark.parametrize("task", RECURRENT)
def test_recurrent_networks_have_the_original_number_of_weights(task):
    inputs, actions, count = RECURRENT[task]
    network = batch_ppo.recurrent_gaussian(box(inputs), box(actions))
    assert network.count_params() == count
    (state,) = network.initial_state(5)
    assert tuple(state.shape) == (5, 100)


def test_categorical_networks_have_the_original_number_of_weights():
    network = batch_ppo.feed_forward_categorical(box(4), gs.Discrete(2))
    assert network.count_params() == 42_503
    network = batch_ppo.recurrent_categorical(box(4), gs.Discrete(2))
    assert network.count_params() == 42_503 - (201 * 100) + 300 * 301


@pytest.mark.parametrize("name", ["feed_forward_gaussian", "recurrent_gaussian"])
def test_means_lie_within_one_and_stds_start_at_035(name):
    keras.utils.set_random_seed(0)
    network = getattr(batch_ppo, name)(VECTOR, box(2))
    steps = make_steps(VECTOR, 2, 3)
    huge = steps._replace(observation=steps.observation * 1e6)
    state = network.initial_state(3)
    policy = network.unroll(steps, state)[0].policy
    np.testing.assert_allclose(policy.std, 0.35, atol=1e-6)
    for each in (steps, huge):
        mean = network.unroll(each, state)[0].policy.mean
        assert np.all(np.abs(mean) <= 1)
    raw = [v for v in network.trainable_variables if v.name == "raw_std"]
    np.testing.assert_allclose(raw[0], np.log(np.expm1(0.35)), rtol=1e-6)


def test_initial_kernels_are_as_published():
    keras.utils.set_random_seed(0)
    network = batch_ppo.feed_forward_gaussian(box(100), box(50))
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


@pytest.mark.parametrize(
    "builder, action, message",
    [
        ("feed_forward_gaussian", "discrete", "a gaussian network needs Box"),
        ("recurrent_gaussian", "multi_discrete", "a gaussian network needs Box"),
        ("feed_forward_categorical", "box", "needs Discrete or MultiDiscrete"),
        ("recurrent_categorical", "multi_binary", "needs Discrete or MultiDiscrete"),
    ],
)
def test_other_actions_are_refused(builder, action, message):
    with pytest.raises(UserError, match=message):
        getattr(batch_ppo, builder)(VECTOR, ACTIONS[action])


@pytest.mark.parametrize("name", ["FEED_FORWARD", "RECURRENT"])
def test_settings_give_the_network_of_a_builder_and_survive_json(name):
    settings = ppo.Config(network=getattr(batch_ppo, name))
    read = config.from_dict(ppo.Config, config.to_dict(settings)).check()
    assert read.network == settings.network.check()
    agent = ppo.PPO(read, make_spec(box(3), box(1)))
    expected = 42_003 if name == "FEED_FORWARD" else 112_203
    assert agent.network.count_params() == expected


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
    (given,) = config.parse(argv, [(ppo.Config, "algorithm")])
    assert config.replace(ppo.Config(), given).network == batch_ppo.RECURRENT


def test_a_builder_takes_settings_and_trains():
    smaller = networks.Config(hidden=(8, 6), core="lstm")
    network = batch_ppo.recurrent_gaussian(VECTOR, box(1), smaller)
    assert len(nest.flatten(network.initial_state(2))) == 4
    agent = ppo.PPO(
        ppo.Config(), make_spec(VECTOR, box(1)), batch_ppo.recurrent_gaussian
    )
    assert agent.recurrent
