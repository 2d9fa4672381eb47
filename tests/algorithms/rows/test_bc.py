"""Behavior cloning of Box actions; that of Discrete ones is in tests of tables."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms import cases
from tests.algorithms.cases import assert_gradients, at, rows
from tests.nn.cases import ACTIONS
from tfagents_batch.errors import UserError
from tfagents_batch.schedules import Constant

STEP = tf.constant(50, tf.int64)
WIDE = gs.Box(-2, 6, (2,))


def make(action=WIDE, **settings):
    return cases.make("bc", action, **settings)


def test_gradients_are_those_of_densities():
    agent = make(learning_rate=Constant(0.0))
    batch = rows(agent)
    unit = (batch.action[0] - 2) / 4
    now = at(batch, 0)

    def loss():
        losses = -agent.policy.distribution(now).log_prob(unit)
        return tf.reduce_mean(tf.boolean_mask(losses, batch.mask[0]))

    metrics = agent.update(batch, 0, STEP).metrics
    assert float(metrics["loss/total"]) == pytest.approx(float(loss()), rel=1e-5)
    assert_gradients(loss, agent.learner.optimizers["actor"])


def test_it_finds_mean_and_standard_deviation_of_logged_actions():
    agent = make(gs.Box(-1, 1, (1,)), learning_rate=Constant(1e-2))
    batch = rows(agent)
    random = np.random.default_rng(0)
    now = at(batch, 0)
    update = tf.function(agent.update, autograph=False)
    for _ in range(400):
        action = 0.3 + 0.1 * random.normal(size=batch.action.shape)
        batch = batch._replace(action=tf.constant(action, tf.float32))
        update(batch, tf.constant(0), STEP)
    policy = agent.policy.distribution(now)
    rows_that_count = batch.mask[0]
    mean, std = (tf.boolean_mask(x, rows_that_count) for x in (policy.mean, policy.std))
    np.testing.assert_allclose(tf.reduce_mean(mean), 0.3, atol=0.03)
    np.testing.assert_allclose(tf.reduce_mean(std), 0.1, atol=0.02)


def test_other_actions_are_refused():
    with pytest.raises(UserError, match=r"MultiDiscrete.*needs Discrete actions, or"):
        make(ACTIONS["multi_discrete"])
    with pytest.raises(UserError, match="finite"):
        make(gs.Box(-np.inf, np.inf, (1,)))
