"""CRR of Box actions, and its limit, which is that of IQL, too."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms import cases
from tests.algorithms.cases import assert_gradients, at, rows
from tests.nn.cases import ACTIONS
from tfagents_batch import seeds
from tfagents_batch.algorithms import crr
from tfagents_batch.schedules import Constant

STEP = tf.constant(50, tf.int64)
WIDE = gs.Box(-2, 6, (2,))


def make(**settings):
    return cases.make("crr", WIDE, **settings)


@pytest.mark.parametrize("weight", ["exponential", "binary"])
@pytest.mark.parametrize("baseline", ["mean", "max"])
def test_gradients_are_those_of_the_two_losses_and_stop_at_targets(weight, baseline):
    agent = make(
        weight=weight,
        baseline=baseline,
        beta=0.05,
        max_weight=3.0,
        action_samples=3,
        gamma=0.9,
        learning_rate=Constant(0.0),
    )
    others = agent._targets.trainable_variables
    others += agent._target_policy.network.trainable_variables
    for variable in others:  # targets of their own
        variable.assign(variable * 1.5)
    batch = rows(agent)
    mask = batch.mask[0].numpy()
    now, after = at(batch, 0), at(batch, 1)
    unit = (batch.action[0] - 2) / 4
    drawn = crr._drawn(agent._target_policy, after, 1, seeds.key(0, "later"))[:, 0]
    later = np.min(agent._targets(after, drawn), 0)
    goal = after.reward + np.where(after.terminated, 0, 0.9) * later
    drawn = crr._drawn(agent.policy, now, 3, seeds.key(0, "now"))
    assert drawn.shape == (len(mask), 3, 2) and np.abs(drawn).max() <= 1
    each = [np.min(agent.critics(now, drawn[:, m]), 0) for m in range(3)]
    value = np.max(each, 0) if baseline == "max" else np.mean(each, 0)
    advantage = (np.min(agent.critics(now, unit), 0) - value)[mask]
    weights = np.minimum(np.exp(advantage / 0.05), 3.0)
    if weight == "binary":
        weights = np.float32(advantage > 0)
    assert len({*weights}) > 1

    def critics():
        losses = tf.reduce_sum((goal - agent.critics(now, unit)) ** 2 / 2, 0)
        return tf.reduce_mean(tf.boolean_mask(losses, mask))

    def actor():
        log_prob = agent.policy.distribution(now).log_prob(unit)
        return -tf.reduce_mean(weights * tf.boolean_mask(log_prob, mask))

    agent.update(batch, 0, STEP)
    assert_gradients(critics, agent.learner.optimizers["critics"])
    assert_gradients(actor, agent.learner.optimizers["actor"])


@pytest.mark.parametrize(
    ("name", "action", "settings"),
    [
        ("crr", WIDE, {"beta": 1e30}),
        ("iql", WIDE, {"advantage_scale": 0.0}),
        ("crr_discrete", ACTIONS["discrete"], {"beta": 1e30}),
    ],
)
def test_with_weights_of_1_it_is_behavior_cloning_bit_for_bit(name, action, settings):
    """Every logged action has the weight exp(0)."""
    agent = cases.make(name, action, learning_rate=1e-3, **settings)
    cloned = cases.make("bc", action, learning_rate=1e-3)
    pairs = zip(cloned.network.variables, agent.network.variables, strict=True)
    for mine, its in pairs:
        mine.assign(its)
    batch = rows(agent)
    for each in (agent, cloned):
        for i in range(5):
            each.update(batch, i, STEP)
    for mine, its in zip(
        agent.network.variables, cloned.network.variables, strict=True
    ):
        np.testing.assert_array_equal(mine, its)
