import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfagents_batch.ops.value_distributions import (
    ReturnCategories,
    ReturnMean,
    ReturnQuantiles,
)

KINDS = [ReturnMean(), ReturnQuantiles(8), ReturnCategories(7, -10.0, 50.0)]


def random(seed, *shape):
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


@pytest.mark.parametrize("kind", KINDS, ids=lambda x: type(x).__name__)
def test_the_mean_is_that_of_the_returns(kind):
    outputs = random(0, 3, 2, kind.size)
    returns, probability = kind.returns(outputs)
    np.testing.assert_allclose(tf.reduce_sum(probability, -1), np.ones([3, 2]), 1e-5)
    mean = tf.reduce_sum(returns * probability, -1)
    np.testing.assert_allclose(kind.mean(outputs), mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS, ids=lambda x: type(x).__name__)
def test_gradient_steps_lead_to_the_distribution_of_the_target(kind):
    returns = tf.constant([[0.0, 30.0]])
    probability = tf.constant([[0.75, 0.25]])
    outputs = tf.Variable(random(1, 1, kind.size))
    optimizer = tf.keras.optimizers.Adam(0.1)
    optimizer.build([outputs])

    @tf.function(autograph=False)
    def train():
        def step(index):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(kind.losses(outputs, returns, probability))
            optimizer.apply_gradients([(tape.gradient(loss, outputs), outputs)])
            return (index + 1,)

        tf.while_loop(lambda index: index < 1500, step, (0,))

    train()
    found = kind.returns(outputs)[0].numpy()[0]
    chance = kind.returns(outputs)[1].numpy()[0]
    assert kind.mean(outputs)[0].numpy() == pytest.approx(7.5, abs=0.8)
    if kind.size > 1:  # three quarters at 0, one at 30; Huber's loss smears them by 1
        assert chance[np.abs(found) < 1].sum() == pytest.approx(0.75, abs=0.02)
        assert chance[np.abs(found - 30) < 1].sum() == pytest.approx(0.25, abs=0.02)


def test_no_gradient_flows_into_the_target():
    for kind in KINDS[1:]:
        returns, probability = random(0, 2, 5), tf.nn.softmax(random(1, 2, 5))
        with tf.GradientTape() as tape:
            tape.watch([returns, probability])
            goal = tf.stop_gradient(returns)
            loss = kind.losses(random(2, 2, kind.size), goal, probability)
        assert tape.gradient(loss, [returns, probability]) == [None, None]


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 9), st.integers(1, 6), st.integers(0, 10_000))
def test_the_projection_is_that_of_the_papers_loop(size, count, seed):
    generator = np.random.default_rng(seed)
    kind = ReturnCategories(size, -1.0, 2.0)
    returns = generator.uniform(-3, 4, (3, count))
    returns[0, 0] = kind.atoms.numpy()[0]  # exactly on an atom
    chance = generator.dirichlet(np.ones(count), 3)
    expected, space = np.zeros((3, size)), 3 / (size - 1)
    for i in range(3):  # algorithm 1 of Bellemare et al. 2017
        for value, p in zip(returns[i], chance[i], strict=True):
            b = (np.clip(value, -1, 2) + 1) / space
            low, high = int(np.floor(b)), int(np.ceil(b))
            if low == high:
                expected[i, low] += p
            else:
                expected[i, low] += p * (high - b)
                expected[i, high] += p * (b - low)
    found = kind.project(
        tf.constant(returns, tf.float32), tf.constant(chance, tf.float32)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_quantile_loss_is_that_of_the_paper():
    outputs, returns = np.array([[0.5, 1.0]]), np.array([[0.0, 2.0, 4.0]])
    chance = np.array([[0.5, 0.25, 0.25]])
    expected, slopes = 0.0, np.zeros([1, 2])
    for i, tau in enumerate([0.25, 0.75]):
        for value, p in zip(returns[0], chance[0], strict=True):
            u = value - outputs[0, i]
            huber = 0.5 * u * u if abs(u) <= 1 else abs(u) - 0.5
            weight = p * abs(tau - (u < 0))
            expected += weight * huber
            slopes[0, i] -= weight * np.clip(u, -1, 1)
    given = [tf.constant(x, tf.float32) for x in (outputs, returns, chance)]
    with tf.GradientTape() as tape:
        tape.watch(given)
        found = ReturnQuantiles(2).losses(*given)
    of_outputs, *of_target = tape.gradient(found, given)
    np.testing.assert_allclose(found, [expected], rtol=1e-5)
    np.testing.assert_allclose(of_outputs, slopes, rtol=1e-5)
    assert of_target == [None, None]
