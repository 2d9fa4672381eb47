"""Tests of gSDE against slow loops from Raffin et al. 2021 (arXiv:2005.05719)."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.nn.layers import state_noise
from tfagents_batch.nn.layers.state_noise import HeldMatrix, StateNoise
from tfagents_batch.nn.networks import TrainedStd
from tfagents_batch.ops.gaussian import DiagNormal, TanhNormal

N, F, A = 5, 4, 2
RANDOM = np.random.default_rng(0)
FEATURES = RANDOM.normal(size=[N, F])
LOG_STD = RANDOM.normal(size=[F, A]) / 2 - 1
MEAN = RANDOM.normal(size=[N, A])
ACTION = MEAN + RANDOM.normal(size=[N, A]) / 2


def layer(learn_features=False):
    noise = StateNoise(TrainedStd(0.4, 0.0, None, "exp"), A, learn_features)
    noise(f32(FEATURES))
    np.testing.assert_allclose(noise.kernel, np.full([F, A], np.log(0.4)), rtol=1e-6)
    noise.kernel.assign(LOG_STD)
    return noise


def f32(x):
    return tf.constant(x, tf.float32)


def std(features, log_std, n, a):
    """Return the standard deviation of one number of an action."""
    total = 1e-6
    for f in range(F):
        total += (math.exp(log_std[f, a]) * features[n, f]) ** 2
    return math.sqrt(total)


def log_prob(features, log_std, action):
    """Return ln pi of each action, f64 ``[N]``."""
    found = np.zeros(N)
    for n in range(N):
        for a in range(A):
            s = std(features, log_std, n, a)
            found[n] -= (action[n, a] - MEAN[n, a]) ** 2 / (2 * s**2)
            found[n] -= math.log(s * math.sqrt(2 * math.pi))
    return found


def squashed(features, log_std, normal):
    """Return the sum of ln pi of squashed samples, weighted by their row's number."""
    action = np.zeros([N, A])
    for n in range(N):
        for a in range(A):
            action[n, a] = MEAN[n, a] + std(features, log_std, n, a) * normal[n, a]
    found = log_prob(features, log_std, action)
    for n in range(N):
        for a in range(A):
            found[n] -= math.log(1 - math.tanh(action[n, a]) ** 2)
    return sum(n * found[n] for n in range(N))


def test_log_probabilities_and_entropies_are_those_of_the_paper():
    policy = DiagNormal(f32(MEAN), layer()(f32(FEATURES)))
    expected = log_prob(FEATURES, LOG_STD, ACTION)
    np.testing.assert_allclose(policy.log_prob(f32(ACTION)), expected, rtol=1e-5)
    entropy = [
        sum(
            0.5 + math.log(std(FEATURES, LOG_STD, n, a) * math.sqrt(2 * math.pi))
            for a in range(A)
        )
        for n in range(N)
    ]
    np.testing.assert_allclose(policy.entropy(), entropy, rtol=1e-5)


def test_the_gradient_of_log_probabilities_is_that_of_the_paper():
    noise, features = layer(), f32(FEATURES)
    with tf.GradientTape() as tape:
        tape.watch(features)
        policy = DiagNormal(f32(MEAN), noise(features))
        total = tf.reduce_sum(policy.log_prob(f32(ACTION)))
    found, to_features = tape.gradient(total, [noise.kernel.value, features])
    expected = np.zeros([F, A])
    for n in range(N):
        for a in range(A):
            s = std(FEATURES, LOG_STD, n, a)
            excess = ((ACTION[n, a] - MEAN[n, a]) ** 2 - s**2) / s**3
            for f in range(F):
                sigma = math.exp(LOG_STD[f, a])
                slope = FEATURES[n, f] ** 2 * sigma / s
                expected[f, a] += excess * slope * sigma  # sigma: d sigma / d ln sigma
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert to_features is None  # no gradient reaches the features


def test_gradients_of_squashed_samples_reach_features_that_learn():
    noise, features = layer(True), f32(FEATURES)
    normal = RANDOM.normal(size=[N, A]) / 2
    with tf.GradientTape() as tape:
        tape.watch(features)
        policy = TanhNormal(f32(MEAN), noise(features), -1.0, 1.0)
        _, log = policy.sample_with_log_prob(f32(normal))
        total = tf.reduce_sum(tf.range(N, dtype=tf.float32) * log)
    np.testing.assert_allclose(total, squashed(FEATURES, LOG_STD, normal), rtol=1e-5)
    found = tape.gradient(total, [features, noise.kernel.value])
    for which, gradient in enumerate(found):
        expected = np.zeros(gradient.shape)
        for place in np.ndindex(*expected.shape):
            ends = []
            for change in (1e-5, -1e-5):
                inputs = FEATURES.copy(), LOG_STD.copy()
                inputs[which][place] += change
                ends.append(squashed(*inputs, normal))
            expected[place] = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_noise_is_the_product_of_features_and_the_matrix():
    noise, matrix = layer(), RANDOM.normal(size=[N, F, A])
    found = noise.normal(f32(FEATURES), f32(matrix))
    for n in range(N):
        for a in range(A):
            total = sum(
                FEATURES[n, f] * math.exp(LOG_STD[f, a]) * matrix[n, f, a]
                for f in range(F)
            )
            expected = total / std(FEATURES, LOG_STD, n, a)
            assert float(found[n, a]) == pytest.approx(expected, rel=1e-5)


def test_noise_over_all_matrices_is_standard_normal():
    count, noise = 20_000, layer()
    start = state_noise.initial_state(count, noise.kernel)
    matrix, _ = state_noise.step(start, state_noise.keys([count], 3), 8)
    found = noise.normal(tf.repeat(f32(FEATURES[:1]), count, 0), matrix)
    np.testing.assert_allclose(np.mean(found, 0), [0, 0], atol=0.03)
    np.testing.assert_allclose(np.cov(found, rowvar=False), np.eye(2), atol=0.04)


def test_a_matrix_is_kept_for_so_many_steps():
    state = state_noise.initial_state(3, layer().kernel)
    keys, matrices = state_noise.keys([7, 3], 0), []
    for key in keys:
        matrix, state = state_noise.step(state, key, 3)
        matrices.append(matrix.numpy())
    for t in range(1, 7):
        same = np.all(matrices[t] == matrices[t - 1])
        assert same == (t % 3 != 0)
    assert len({matrices[0][i].tobytes() for i in range(3)}) == 3  # one for each


def test_only_rows_whose_matrix_is_due_get_another_one():
    before = HeldMatrix(tf.ones([2, F, A]), tf.constant([0, 2]))
    matrix, after = state_noise.step(before, state_noise.keys([2], 1), 3)
    assert np.all(matrix[0] != 1) and np.all(matrix[1] == 1)
    np.testing.assert_array_equal(after.age, [1, 0])
