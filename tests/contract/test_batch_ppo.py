"""What somebody who comes from batch-ppo counts on, with numbers known beforehand."""

import functools
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

import tfagents_batch as tfb
from tests.algorithms.cases import collect
from tests.nn.cases import ACTIONS, make_spec
from tfagents_batch.algorithms import ppo
from tfagents_batch.envs.make import make_env
from tfagents_batch.envs.testing import CountingEnv
from tfagents_batch.errors import UserError
from tfagents_batch.nn import networks
from tfagents_batch.ops import returns

ORIGINAL = networks.Config(hidden=(200, 100), activation="relu", init_std=0.35)


def box(*shape):
    return gs.Box(-1, 1, shape)


@pytest.mark.parametrize(
    ("observation", "action", "size"),
    [
        pytest.param(3, box(1), 42_003, id="pendulum"),
        pytest.param(4, gs.Discrete(2), 42_503, id="cartpole"),
        pytest.param(10, box(2), 44_905, id="reacher"),
        pytest.param(11, box(3), 45_407, id="hopper"),
        pytest.param(17, box(6), 48_113, id="cheetah and walker"),
        pytest.param(105, box(8), 83_517, id="ant"),
        pytest.param(348, box(17), 181_635, id="humanoid"),
    ],
)
def test_networks_have_as_many_parameters_as_there(observation, action, size):
    network = networks.actor_critic(make_spec(box(observation), action), ORIGINAL)
    assert network.count_params() == size


def test_the_deviation_starts_where_it_is_set():
    network = networks.actor_critic(make_spec(box(3), box(2)), ORIGINAL)
    np.testing.assert_allclose(tf.exp(network.trained_std), 0.35, atol=1e-6)


@pytest.mark.parametrize("lambda_", [1.0, 0.95])
def test_a_constant_reward_returns_what_it_should(lambda_):
    gamma, length = 0.995, 200
    reward, mask = tf.ones([length, 1]), tf.ones([length, 1], tf.bool)
    at_the_end = tf.one_hot([length - 1], length, on_value=0.0, off_value=gamma)
    # Terminated: the geometric sum.
    target = returns.lambda_return(
        reward, tf.transpose(at_the_end), tf.zeros([length + 1, 1]), 1.0, mask
    )
    assert float(target[0, 0]) == pytest.approx(126.608, abs=1e-3)
    # Cut off, with the value of going on for ever: the same at every step.
    value = tf.fill([length + 1, 1], 1 / (1 - gamma))
    target = returns.lambda_return(
        reward, tf.fill([length, 1], gamma), value, lambda_, mask
    )
    np.testing.assert_allclose(target, 200.0, atol=2e-2)


def test_targets_do_not_depend_on_minibatches():
    found = []
    for minibatch_size in (4, 16, 1000):
        keras.utils.set_random_seed(0)
        config = ppo.Config(minibatch_size=minibatch_size, epochs=2)
        agent = ppo.PPO(config, make_spec(action=ACTIONS["box"], num_envs=4))
        found.append(agent.update(collect(agent), 1)["value/target"].numpy())
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_episodes_of_each_environment_end_in_their_own_time():
    makes = [functools.partial(CountingEnv, length) for length in (1, 2, 3, 4)]
    ended, lengths = [], [[] for _ in makes]
    with make_env(makes, num_workers=0) as env:
        state, step = env.init(1)
        for _ in range(10):
            state, step = env.step(state, tf.zeros([4], tf.int32))
            last = step.last.numpy()
            ended.append("".join("FT"[int(x)] for x in last))
            for row in np.flatnonzero(last):
                lengths[row].append(int(step.info["episode_length"][row]))
    assert ended[:4] == ["TFFF", "FTFF", "TFTF", "FFFT"]
    assert lengths == [[1] * 5, [2] * 3, [3] * 2, [4] * 2]


def test_an_untrained_policy_is_not_filmed(tmp_path):
    run = tfb.train(
        "ppo",
        env="CartPole-v1",
        steps=50,
        num_envs=2,
        num_workers=0,
        rollout_length=25,
        eval_every=0,
        compile="off",
        settings={"epochs": 1, "minibatch_size": 25},
        logdir=tmp_path,
    )
    checkpoints = pathlib.Path(run.logdir) / "checkpoints"
    checkpoints.rename(checkpoints.with_name("away"))
    with pytest.raises(UserError, match="checkpoint"):
        tfb.visualize(run.logdir, tmp_path / "videos")
    assert not list(tmp_path.glob("videos/*"))
