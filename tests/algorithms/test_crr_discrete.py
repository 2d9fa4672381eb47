"""CRR of Discrete actions: targets, weights of logged actions, and a limit case."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.cases import B, assert_equal, assert_gradients, collect, small
from tests.nn.cases import ACTIONS, VECTOR, make_spec
from tfagents_batch import config, nest
from tfagents_batch.algorithms import REGISTRY
from tfagents_batch.configs import PRESETS
from tfagents_batch.errors import UserError
from tfagents_batch.schedules import Constant
from tfagents_batch.types import Trajectory

STEP = tf.constant(50, tf.int64)
STILL = {"learning_rate": Constant(0.0), "max_gradient_norm": None}


def make(name="crr_discrete", **settings):
    kind, defaults = REGISTRY[name]
    keras.utils.set_random_seed(0)
    chosen = small(config.replace(defaults(), {"histograms": False} | settings))
    return kind(chosen, make_spec(VECTOR, ACTIONS["discrete"], B))


def rows(agent) -> Trajectory:
    """Return a batch of rows: steps of a rollout with their next ones."""
    made = collect(agent, terminate=True)
    pairs = nest.map(
        lambda x: tf.stack([nest.fold(x[:-1]), nest.fold(x[1:])]), made.steps
    )
    return Trajectory(pairs, nest.fold(made.action)[tf.newaxis], {})


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
    before, after = (nest.map(lambda x, i=i: x[i], batch.steps) for i in (0, 1))
    mask, action = batch.mask[0].numpy(), batch.action[0].numpy()
    now = np.exp(agent._log_policy(before)), agent.critics(before).numpy()
    later = np.exp(agent._log_policy(after)), agent._targets(after).numpy()
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
        return -tf.reduce_mean(weights[mask] * of_logged(agent._log_policy(before)))

    assert_gradients(critics_loss, agent.learner.optimizers["critics"])
    assert_gradients(actor_loss, agent.learner.optimizers["actor"])


def test_with_weights_of_1_it_is_behavior_cloning_bit_for_bit():
    """A large beta gives every logged action the weight exp(0)."""
    agent, cloned = make(beta=1e30, learning_rate=1e-3), make("bc")
    for mine, its in zip(
        cloned.network.variables, agent.network.variables, strict=True
    ):
        mine.assign(its)
    batch = rows(agent)
    for each in (agent, cloned):
        for i in range(10):
            each.update(batch, i, STEP)
    found, expected = (
        {str(i): x.numpy() for i, x in enumerate(each.network.variables)}
        for each in (agent, cloned)
    )
    assert_equal(found, expected)


def test_its_error_and_its_preset():
    kind, defaults = REGISTRY["crr_discrete"]
    with pytest.raises(UserError, match=r"action space is Box.*needs Discrete"):
        kind(defaults(), make_spec(VECTOR, ACTIONS["box"], B))
    with pytest.raises(UserError, match=r"beta is 0"):
        defaults(beta=0.0).check()
    assert PRESETS["rows/crr_discrete"]().settings.check().num_critics == 2
