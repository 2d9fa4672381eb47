"""TD3+BC: TD3 whose actor also imitates logged actions."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms import cases
from tests.algorithms.cases import assert_gradients, assert_same, at, rows
from tfagents_batch.errors import UserError
from tfagents_batch.schedules import Constant

STEP = tf.constant(50, tf.int64)


def make(name="td3_bc", **settings):
    action = gs.Box(-2, 6, (2,))
    return cases.make(name, action, **{"policy_delay": 1, **settings})


@pytest.mark.parametrize("delay", [1, 2])
def test_without_alpha_it_is_td3_bit_for_bit(delay):
    settings = {"policy_delay": delay, "learning_rate": Constant(1e-3)}
    agents = make("td3", **settings), make(bc_alpha=None, **settings)
    batch = rows(agents[0])
    for agent in agents:
        for i in range(4):
            agent.update(batch, i, STEP)
    assert_same(agents)


def test_the_actor_follows_values_in_units_of_their_mean_and_logged_actions():
    agent = make(bc_alpha=1.5, learning_rate=Constant(0.0))
    batch = rows(agent)
    mask = batch.mask[0].numpy()
    assert mask.any() and not mask.all()
    logged = (batch.action[0] - 2) / 4  # in units of half the range
    now = at(batch, 0)
    scale = np.abs(agent.critics(now, agent.policy.unit(now))[0])[mask].mean()

    def actor():
        action = agent.policy.unit(now)
        values = tf.boolean_mask(agent.critics(now, action)[0], mask)
        distance = tf.boolean_mask((action - logged) ** 2, mask)
        return tf.reduce_mean(distance) - 1.5 / scale * tf.reduce_mean(values)

    agent.update(batch, 0, STEP)
    assert_gradients(actor, agent.learner.optimizers["actor"])


def test_a_small_alpha_imitates():
    agent = make(bc_alpha=1e-3, learning_rate=Constant(1e-2))
    batch = rows(agent)
    target = tf.constant([0.5, -0.5])
    action = tf.broadcast_to(target * 4 + 2, batch.action.shape)
    update = tf.function(agent.update, autograph=False)
    for i in range(300):
        update(batch._replace(action=action), tf.constant(i), STEP)
    now = at(batch, 0)
    found = tf.boolean_mask(agent.policy.unit(now), batch.mask[0])
    assert np.abs(found - target).max() < 0.1


def test_alpha_is_positive():
    with pytest.raises(UserError, match="bc_alpha is 0"):
        make(bc_alpha=0.0)
