"""CRR of Discrete actions: targets, weights of logged actions, and a limit case."""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms import cases
from tests.algorithms.cases import assert_gradients, at, rows
from tfagents_batch.schedules import Constant

STEP = tf.constant(50, tf.int64)
STILL = {"learning_rate": Constant(0.0), "max_gradient_norm": None}


def make(**settings):
    return cases.make("crr_discrete", histograms=False, **settings)


def different(agent):
    """Give the agent clear preferences, and targets other than its critics."""
    for variable in agent.network.trainable_variables:
        variable.assign(variable * 20)
    for variable in agent._targets.trainable_variables:
        variable.assign(variable * 1.5)
    return agent


@pytest.mark.parametrize("weight", ["exponential", "binary"])
def test_targets_weights_and_gradients_are_those_of_a_slow_loop(weight):
    agent = different(make(weight=weight, beta=0.1, gamma=0.9, max_weight=3.0, **STILL))
    batch = rows(agent)
    before, after = at(batch, 0), at(batch, 1)
    mask, action = batch.mask[0].numpy(), batch.action[0].numpy()
    now = np.exp(agent.policy.log_policy(before)), agent.critics(before).numpy()
    later = np.exp(agent.policy.log_policy(after)), agent._targets(after).numpy()
    goals, weights = [], []
    for i in range(len(mask)):
        value = float(np.sum(later[0][i] * later[1][:, i].min(0)))
        value = 0.0 if bool(after.terminated[i]) else 0.9 * value
        goals.append(float(after.reward[i]) + value)
        q = now[1][:, i].min(0)
        advantage = q[action[i]] - np.sum(now[0][i] * q)
        binary = float(advantage > 0)
        weights.append(
            binary if weight == "binary" else min(np.exp(advantage / 0.1), 3.0)
        )
    weights = np.float32(weights)
    assert len({*weights[mask]}) >= 2 and max(weights[mask]) in (1, 3)
    metrics = agent.update(batch, 0, STEP).metrics
    found = [metrics[x] for x in ("value/target", "policy/weight")]
    expected = [np.mean(np.float32(x)[mask]) for x in (goals, weights)]
    np.testing.assert_allclose(found, expected, rtol=1e-4)

    def of_logged(x):
        return tf.boolean_mask(tf.reduce_sum(x * tf.one_hot(action, 3), -1), mask)

    def critics_loss():
        errors = [np.float32(goals)[mask] - of_logged(q) for q in agent.critics(before)]
        return sum(tf.reduce_mean(error**2 / 2) for error in errors)

    def actor_loss():
        return -tf.reduce_mean(
            weights[mask] * of_logged(agent.policy.log_policy(before))
        )

    assert_gradients(critics_loss, agent.learner.optimizers["critics"])
    assert_gradients(actor_loss, agent.learner.optimizers["actor"])
