"""Batch renormalization, against the paper's algorithm 1."""

import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.nn.layers import batch_renorm
from tfagents_batch.nn.layers.batch_renorm import BatchRenorm


@pytest.fixture
def layer():
    made = BatchRenorm()
    made.build((2, 1, 3))
    random = np.random.default_rng(0)
    for name in ("scale", "offset", "mean"):
        getattr(made, name).assign(random.normal(size=[2, 1, 3]))
    made.variance.assign(random.uniform(0.1, 2, size=[2, 1, 3]))
    return made


def expected(layer, x, rows, warm):
    mean = x[:, rows].mean(1, keepdims=True)
    deviation = np.sqrt(x[:, rows].var(1, keepdims=True) + 1e-3)
    kept = np.sqrt(layer.variance.numpy() + 1e-3)
    r = np.clip(deviation / kept, 1 / 3, 3) if warm else 1
    d = np.clip((mean - layer.mean.numpy()) / kept, -5, 5) if warm else 0
    return ((x - mean) / deviation * r + d) * layer.scale + layer.offset


@pytest.mark.parametrize("warm", [False, True])
def test_units_are_normalized_over_rows_and_corrected_after_the_warm_up(layer, warm):
    random = np.random.default_rng(1)
    x = random.normal(3, 2, size=[2, 40, 3]).astype(np.float32)
    rows = random.random(40) < 0.7
    x[:, ~rows] = np.nan  # failed rows
    layer.batches.assign(batch_renorm.WARMUP if warm else 0)
    goal = expected(layer, x, rows, warm)
    mean, variance = layer.mean.numpy(), layer.variance.numpy()
    found = layer(tf.constant(x), rows=tf.constant(rows)).numpy()
    np.testing.assert_allclose(found[:, rows], goal[:, rows], rtol=1e-4, atol=1e-5)
    new = x[:, rows].mean(1, keepdims=True), x[:, rows].var(1, keepdims=True)
    np.testing.assert_allclose(layer.mean, 0.99 * mean + 0.01 * new[0], rtol=1e-4)
    np.testing.assert_allclose(
        layer.variance, 0.99 * variance + 0.01 * new[1], rtol=1e-4
    )
    assert int(layer.batches) == (batch_renorm.WARMUP if warm else 0) + 1


def test_without_rows_the_moving_means_are_used_and_kept(layer):
    x = np.random.default_rng(1).normal(size=[2, 7, 3]).astype(np.float32)
    before = layer.mean.numpy()
    found = layer(tf.constant(x)).numpy()
    goal = (x - before) / np.sqrt(layer.variance.numpy() + 1e-3)
    np.testing.assert_allclose(
        found, goal * layer.scale + layer.offset, rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(layer.mean, before)
    some = layer(tf.constant(x[1:]), which=tf.constant([1]))
    np.testing.assert_allclose(some, found[1:], rtol=1e-6)


def test_a_batch_that_is_not_finite_leaves_the_moving_means(layer):
    before = layer.mean.numpy(), layer.variance.numpy()
    layer(tf.fill([2, 5, 3], float("inf")), rows=tf.fill([5], True))
    np.testing.assert_array_equal(layer.mean, before[0])
    np.testing.assert_array_equal(layer.variance, before[1])
    assert int(layer.batches) == 0
