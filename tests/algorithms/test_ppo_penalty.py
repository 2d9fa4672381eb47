"""Tests of PPO's adaptive KL penalty."""

import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.algorithms.ppo_penalty import AdaptiveKL, KLConfig

ONE = tf.constant([True])


@pytest.mark.parametrize(
    ("kl", "loss", "slope", "cutoff"),
    [
        (0.03, 2 * 0.03 + 0.1, 2 + 2 * 1000 * 0.01, 1.0),
        (0.02, 2 * 0.02, 2, 0.0),
        (0.005, 2 * 0.005, 2, 0.0),
    ],
)
def test_the_penalty_adds_the_squared_excess_over_the_cutoff(kl, loss, slope, cutoff):
    penalty, kl = AdaptiveKL(KLConfig(init_penalty=2.0)), tf.constant([kl])
    with tf.GradientTape() as tape:
        tape.watch(kl)
        found, share = penalty.loss(kl, ONE)
    assert float(found) == pytest.approx(loss, abs=1e-6)
    assert float(tape.gradient(found, kl)[0]) == pytest.approx(slope, rel=1e-4)
    assert float(share) == cutoff


@pytest.mark.parametrize(
    ("start", "kl", "expected"),
    [
        (1.0, 0.0131, 1.5),
        (1.0, 0.0069, 1 / 1.5),
        (1.0, 0.010, 1.0),
        (1.0, 0.013, 1.0),  # the limits themselves
        (1.0, 0.007, 1.0),
        (1.0, np.nan, 1.0),
        (900.0, 1.0, 1000.0),  # its bounds
        (1.2e-4, 0.0, 1e-4),
    ],
)
def test_the_weight_adapts_to_the_divergence_within_its_bounds(start, kl, expected):
    penalty = AdaptiveKL(KLConfig(init_penalty=start))
    penalty.adapt(tf.constant([kl]), ONE)
    assert float(penalty.beta.value) == pytest.approx(expected)


def test_short_and_long_sequences_have_equal_weight():
    kl = tf.constant([[0.1, 0.2, np.nan], [0.3, np.nan, np.nan]])
    mask = tf.constant([[True, True, False], [True, False, False]])
    mean, counts = AdaptiveKL(KLConfig(reduction="sequence")).mean(kl, mask)
    np.testing.assert_allclose(mean, [0.2, 0.2, 0], rtol=1e-6)
    np.testing.assert_array_equal(counts, [True, True, False])
    kl, mask = tf.constant([[1.0, 0.0], [9.0, 0.0]]), tf.constant([[1, 1], [0, 1]]) > 0
    for reduction, expected in (("sequence", 1 / 2), ("batch", 1 / 3)):
        mean, _ = AdaptiveKL(KLConfig(reduction=reduction)).mean(kl, mask)
        assert float(tf.reduce_mean(mean)) == pytest.approx(expected)
