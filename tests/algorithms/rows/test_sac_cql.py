"""CQL of Box actions: SAC with a conservative loss of its critics."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces as gs

from tests.algorithms import cases
from tests.algorithms.cases import assert_gradients, assert_same, at, rows
from tfagents_batch import seeds
from tfagents_batch.errors import UserError
from tfagents_batch.ops.windows import Transition
from tfagents_batch.schedules import Constant

STEP = tf.constant(50, tf.int64)


def make(name="cql", **settings):
    return cases.make(name, gs.Box(-2, 6, (2,)), **settings)


def test_with_a_weight_of_0_it_is_sac_bit_for_bit():
    agents = make("sac"), make(cql_scale=0.0, entropy_in_target=True)
    batch = rows(agents[0])
    for agent in agents:
        for i in range(3):
            agent.update(batch, i, STEP)
    assert_same(agents)


@pytest.mark.parametrize("entropy", [False, True])
def test_its_loss_adds_the_gap_between_all_values_and_logged_ones(entropy):
    agent = make(
        cql_scale=0.7,
        cql_samples=3,
        entropy_in_target=entropy,
        gamma=0.9,
        learning_rate=Constant(0.0),
    )
    batch, term = rows(agent), agent._extra
    mask = batch.mask[0].numpy()
    now, after = at(batch, 0), at(batch, 1)
    unit = (batch.action[0] - 2) / 4
    following, log_prob, _ = agent._actions.draw(after, seeds.key(0, "later"))
    later = tf.reduce_min(agent.targets(after, following), 0)
    value = (later - log_prob if entropy else later).numpy()  # a temperature of 1
    goal = after.reward + np.where(after.terminated, 0, 0.9) * value
    drawn = term.draw(agent.policy, _transition(now, after, batch), 0)
    action, density = drawn.action.numpy(), drawn.log_density.numpy()
    assert action.shape == (len(mask), 9, 2) and np.abs(action).max() <= 1

    def critics():
        q = agent.critics(now, unit)
        total = tf.reduce_sum((goal - q) ** 2 / 2, 0)
        parts = [
            tf.exp(agent.critics(now, action[:, m])) / np.exp(density[:, m])
            for m in range(9)
        ]
        gap = tf.reduce_sum(tf.math.log(sum(parts)) - q, 0)
        return tf.reduce_mean(tf.boolean_mask(total + 0.7 * gap, mask))

    metrics = agent.update(batch, 0, STEP).metrics
    assert_gradients(critics, agent.learner.optimizers["critics"])
    assert float(metrics["value/cql_scale"]) == pytest.approx(0.7)


def test_a_third_of_the_actions_are_uniform_and_others_are_those_of_the_policy():
    agent = make(cql_samples=2)
    batch = rows(agent)
    now, after = at(batch, 0), at(batch, 1)
    drawn = agent._extra.draw(agent.policy, _transition(now, after, batch), 0)
    np.testing.assert_allclose(drawn.log_density[:, :2], -2 * np.log(2), rtol=1e-6)
    for step, columns in ((now, slice(2, 4)), (after, slice(4, 6))):
        for m in range(columns.start, columns.stop):
            policy = agent.policy.distribution(step)
            expected = policy.log_prob(drawn.action[:, m])
            np.testing.assert_allclose(drawn.log_density[:, m], expected, rtol=1e-3)


@pytest.mark.parametrize(("gap", "grows"), [(-100.0, True), (100.0, False)])
def test_a_learned_weight_grows_while_the_gap_is_too_large(gap, grows):
    agent = make(cql_gap=gap, cql_scale=2.0)
    batch = rows(agent)
    found = [agent.update(batch, i, STEP).metrics["value/cql_scale"] for i in range(3)]
    assert float(found[0]) == pytest.approx(2.0, rel=1e-6)
    assert (found[2] > found[0]) == grows
    assert "learner/log_cql_scale" in agent.learner.named_variables()
    assert "learner/log_cql_scale" not in make().learner.named_variables()


def test_values_of_many_actions_are_those_of_each():
    agent = make()
    now = at(rows(agent), 0)
    action = tf.constant(
        np.random.default_rng(0).uniform(-1, 1, [48, 5, 2]), tf.float32
    )
    found = agent.critics(now, action)
    each = [agent.critics(now, action[:, m]) for m in range(5)]
    np.testing.assert_allclose(found, tf.stack(each, 2), rtol=1e-5, atol=1e-6)
    one = agent.critics(now, action, which=1)
    np.testing.assert_allclose(one, found[:1], rtol=1e-5, atol=1e-6)


def test_a_gap_without_a_weight_is_refused():
    with pytest.raises(UserError, match=r"cql_gap is 5.0, but cql_scale is 0"):
        make(cql_scale=0.0, cql_gap=5.0)


def _transition(now, after, batch):
    zeros = tf.zeros_like(batch.mask[0])
    return Transition(now, batch.action[0], (), (), after, zeros, batch.mask[0])
