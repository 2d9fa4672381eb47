"""Conservative Q-learning: DQN with one more term in its loss."""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms import cases
from tests.algorithms.cases import assert_gradients, assert_same, experience
from tests.nn.cases import VECTOR, make_steps
from tfagents_batch import nest
from tfagents_batch.algorithms import dqn
from tfagents_batch.algorithms.shared.sequences import Sequences
from tfagents_batch.schedules import Constant

STEP = tf.constant(5000, tf.int64)
NO_NOISE = dqn._Noise((), (), ())


def make(**settings):
    return cases.make("dqn", n_step=1, **settings)


@pytest.mark.parametrize("options", [{}, {"distribution": "qr"}])
def test_without_a_weight_it_is_dqn_bit_for_bit(options):
    """The weight 0 leaves the term out; a tiny one adds less than float32 has."""
    agents = make(cql_scale=0.0, **options), make(cql_scale=1e-30, **options)
    batch = experience(agents[0])
    for agent in agents:
        for _ in range(3):
            agent.update(batch, 0, STEP)
    assert_same(agents)


def test_its_loss_adds_the_gap_between_all_values_and_the_logged_one():
    agent = make(
        cql_scale=0.5,
        target="max",
        loss="squared",
        learning_rate=Constant(0.0),
        max_gradient_norm=None,
    )
    batch = experience(agent)
    mask = batch.mask[0].numpy()
    assert mask.any() and not mask.all()
    sequences = Sequences(agent.config, batch)
    transition = agent._transition(sequences, NO_NOISE)
    returns, _ = agent._returns(sequences, transition, NO_NOISE)

    def parts():
        q = agent.network(nest.map(lambda x: x[0], batch.steps))[0].q
        taken = tf.gather(q, batch.action[0], batch_dims=1)
        gap = tf.math.log(tf.reduce_sum(tf.exp(q), -1)) - taken
        error = returns[:, 0] - taken
        return [tf.reduce_mean(tf.boolean_mask(x, mask)) for x in (error**2 / 2, gap)]

    metrics = agent.update(batch, 0, STEP).metrics
    expected = dict(zip(("loss/td", "loss/cql"), parts(), strict=True))
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5)

    def loss():
        error, gap = parts()
        return error + 0.5 * gap

    assert_gradients(loss, agent.learner.optimizers["network"])


def test_values_of_actions_that_are_not_logged_fall_below_the_others():
    """Rows of one action only, with equal rewards."""
    plain, agent = (make(cql_scale=x, learning_rate=Constant(1e-2)) for x in (0.0, 1.0))
    batch = experience(plain)
    batch = batch._replace(action=tf.zeros_like(batch.action))
    for each in (plain, agent):
        for _ in range(60):
            each.update(batch, 0, STEP)
    step = nest.map(lambda x: x[0], make_steps(VECTOR, 1, 32))
    found, before = (each.network(step)[0].q.numpy() for each in (agent, plain))
    assert (found.argmax(-1) == 0).all() and (before.argmax(-1) != 0).any()
