"""TD3+BC: TD3 whose actor also imitates logged actions."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms.cases import B, assert_gradients, assert_same, rows, small
from tests.nn.cases import VECTOR, make_spec
from tfagents_batch import nest
from tfagents_batch.algorithms import td3
from tfagents_batch.configs import PRESETS
from tfagents_batch.errors import UserError
from tfagents_batch.schedules import Constant

STEP = tf.constant(50, tf.int64)
SPEC = make_spec(VECTOR, gs.Box(-2, 6, (2,)), B)


def make(kind=td3.TD3BCConfig, **settings):
    keras.utils.set_random_seed(0)
    return td3.TD3(small(kind(**{"policy_delay": 1, **settings})), SPEC)


@pytest.mark.parametrize("delay", [1, 2])
def test_without_alpha_it_is_td3_bit_for_bit(delay):
    settings = {"policy_delay": delay, "learning_rate": Constant(1e-3)}
    agents = make(td3.Config, **settings), make(bc_alpha=None, **settings)
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
    now = nest.map(lambda x: x[0], batch.steps)
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
    now = nest.map(lambda x: x[0], batch.steps)
    found = tf.boolean_mask(agent.policy.unit(now), batch.mask[0])
    assert np.abs(found - target).max() < 0.1


def test_alpha_is_positive_and_rows_need_box_actions():
    with pytest.raises(UserError, match="bc_alpha is 0"):
        make(bc_alpha=0.0)
    with pytest.raises(UserError, match=r"action space is Discrete.*needs a Box"):
        td3.TD3(td3.TD3BCConfig(), make_spec(VECTOR, gs.Discrete(3)))


def test_its_preset_has_the_alpha_of_imitation():
    assert PRESETS["rows/td3_bc"]().settings.bc_alpha is not None
