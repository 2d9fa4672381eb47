"""IQL: expectiles as values, and the weights of logged actions."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms import cases
from tests.algorithms.cases import assert_gradients, at, rows
from tfagents_batch.ops import advantages
from tfagents_batch.schedules import Constant

STEP = tf.constant(50, tf.int64)


def make(*action, **settings):
    return cases.make("iql", *action, **settings)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2.0), (0.8, 4.0), (0.2, 2 / 3)])
def test_an_expectile_is_where_weighted_errors_balance(share, expected):
    # Targets 0, 0 and 6: (6 - v) share = 2 v (1 - share).
    value = tf.Variable(expected)
    with tf.GradientTape() as tape:
        errors = tf.constant([0.0, 0.0, 6.0]) - value
        loss = tf.reduce_mean(advantages.expectile(errors, share))
    assert abs(float(tape.gradient(loss, value))) < 1e-6


def test_gradients_are_those_of_the_three_losses_and_stop_at_targets():
    agent = make(
        gs.Box(-2, 6, (2,)),
        expectile=0.8,
        advantage_scale=20.0,
        max_weight=1.5,
        gamma=0.9,
        learning_rate=Constant(0.0),
    )
    for variable in agent._targets.trainable_variables:  # targets of their own
        variable.assign(variable * 1.5)
    batch = rows(agent)
    mask = batch.mask[0].numpy()
    now, after = at(batch, 0), at(batch, 1)
    unit = (batch.action[0] - 2) / 4
    least = np.min(agent._targets(now, unit), 0)
    later = agent._value(after)[0, :, 0].numpy()
    goal = after.reward + np.where(after.terminated, 0, 0.9) * later
    advantage = (least - agent._value(now)[0, :, 0])[mask]
    weight = np.minimum(np.exp(20 * advantage), 1.5)
    assert weight.min() < 1.4 and weight.max() == 1.5

    def values():
        q, value = agent.critics(now, unit), agent._value(now)[0, :, 0]
        losses = tf.reduce_sum((goal - q) ** 2 / 2, 0)
        error = least - value
        losses += tf.where(error > 0, 0.8, 0.2) * error**2
        return tf.reduce_mean(tf.boolean_mask(losses, mask))

    def actor():
        log_prob = agent.policy.distribution(now).log_prob(unit)
        return -tf.reduce_mean(weight * tf.boolean_mask(log_prob, mask))

    metrics = agent.update(batch, 0, STEP).metrics
    assert float(metrics["policy/weight"]) == pytest.approx(weight.mean(), rel=1e-4)
    assert_gradients(values, agent.learner.optimizers["critics"])
    assert_gradients(actor, agent.learner.optimizers["actor"])


def test_it_prefers_the_better_of_two_logged_actions():
    """A bandit: actions near 0.5 have a reward of 1, those near -0.5 have none."""
    settings = {"gamma": 0.0, "target_tau": 0.1, "max_gradient_norm": 1.0}
    agent = make(gs.Box(-1, 1, (1,)), learning_rate=Constant(1e-2), **settings)
    batch = rows(agent)
    random = np.random.default_rng(0)
    count = batch.action.shape[1]
    good = random.random(count) < 0.3
    action = np.where(good, 0.5, -0.5) + random.normal(size=count) * 0.05
    reward = tf.stack([np.zeros(count), good]).numpy().astype(np.float32)
    same = tf.zeros_like(batch.steps.observation)
    steps = batch.steps._replace(reward=tf.constant(reward), observation=same)
    batch = batch._replace(
        steps=steps,
        action=tf.constant(action.reshape(1, -1, 1), tf.float32),
    )
    update = tf.function(agent.update, autograph=False)
    for _ in range(300):
        update(batch, tf.constant(0), STEP)
    now = at(batch, 0)
    mean = tf.boolean_mask(agent.policy.distribution(now).mean, batch.mask[0])
    assert float(tf.reduce_mean(mean)) > 0.25  # cloning: -0.2
