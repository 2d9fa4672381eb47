"""Properties that users of batch-ppo expect, with known numbers."""

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.cases import collect, make_ppo, update
from tfagents_batch.ops import returns


@pytest.mark.parametrize("lambda_", [1.0, 0.95])
def test_constant_rewards_have_the_known_lambda_return(lambda_):
    gamma, length = 0.995, 200
    reward, mask = tf.ones([length, 1]), tf.ones([length, 1], tf.bool)
    discount = tf.one_hot([length - 1], length, on_value=0.0, off_value=gamma)
    # Terminated: the geometric sum.
    target = returns.lambda_return(
        reward, tf.transpose(discount), tf.zeros([length + 1, 1]), 1.0, mask
    )
    assert float(target[0, 0]) == pytest.approx(126.608, abs=1e-3)
    # Truncated, with the value of an endless episode: the same at every step.
    value = tf.fill([length + 1, 1], 1 / (1 - gamma))
    target = returns.lambda_return(
        reward, tf.fill([length, 1], gamma), value, lambda_, mask
    )
    np.testing.assert_allclose(target, 200.0, atol=2e-2)


def test_targets_do_not_depend_on_minibatches():
    found = []
    for minibatch_size in (16, 1000):
        agent = make_ppo(minibatch_size=minibatch_size, epochs=2)
        found.append(update(agent, collect(agent), 1)["histogram/target"].numpy())
    np.testing.assert_array_equal(*found)
