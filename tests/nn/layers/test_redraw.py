"""Weights drawn anew: the distributions of Keras' initializers, with a key."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import initializers

from tfagents_batch import seeds
from tfagents_batch.errors import UserError
from tfagents_batch.nn.layers import kernels, redraw

KEY = tf.constant([3, 7], tf.int32)


def drawn(initializer, shape, jit=False, key=KEY):
    def draw(key):
        return redraw.draw(initializer, shape, key)

    return tf.function(draw, jit_compile=jit, autograph=False)(key).numpy()


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (40, 40), (3, 3, 2, 5)])
def test_an_orthogonal_kernel_is_the_q_of_normal_numbers(shape, jit):
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    size = max(rows, columns), min(rows, columns)
    q, r = np.linalg.qr(seeds.normal(size, KEY).numpy().astype(np.float64))
    q = q * np.sign(np.diag(r))
    expected = 1.5 * (q if rows >= columns else q.T).reshape(shape)
    found = drawn(initializers.Orthogonal(1.5), shape, jit)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    "initializer",
    [
        initializers.GlorotUniform(1),
        initializers.HeNormal(1),
        initializers.LecunUniform(1),
        initializers.VarianceScaling(0.3, "fan_out", "untruncated_normal", seed=1),
        initializers.VarianceScaling(1 / 3, "fan_in", "uniform", seed=1),
        initializers.RandomUniform(-0.2, 0.1, seed=1),
    ],
)
@pytest.mark.parametrize("shape", [(200, 100), (3, 3, 40, 60), (5000,)])
def test_numbers_have_the_distribution_of_keras(initializer, shape):
    expected = np.sort(np.ravel(initializer(shape)))
    found = np.sort(np.ravel(drawn(initializer, shape)))
    width = expected[-1] - expected[0]
    np.testing.assert_allclose(found.std(), expected.std(), rtol=0.04)
    np.testing.assert_allclose(found[::50], expected[::50], atol=0.06 * width)
    if "untruncated" not in str(initializer.get_config()):
        np.testing.assert_allclose(found[[0, -1]], expected[[0, -1]], rtol=0.05)


def test_kernels_of_several_networks_are_drawn_one_by_one():
    one, two = drawn(
        kernels.PerNetwork(lambda: initializers.Orthogonal(2.0)), (2, 6, 4)
    )
    for kernel in (one, two):
        np.testing.assert_allclose(kernel.T @ kernel, 4 * np.eye(4), atol=1e-5)
    assert np.abs(one - two).max() > 0.1


def test_compiled_draws_equal_eager_ones_and_other_keys_differ():
    for initializer in (initializers.GlorotNormal(1), initializers.HeUniform(1)):
        eager, compiled = (drawn(initializer, (30, 20), x) for x in (False, True))
        np.testing.assert_allclose(compiled, eager, atol=1e-6)
        other = drawn(initializer, (30, 20), key=KEY + 1)
        assert abs(np.corrcoef(np.ravel(eager), np.ravel(other))[0, 1]) < 0.15


def test_weights_that_start_equal_get_the_same_numbers_again():
    layer = keras.layers.LayerNormalization()
    layer.build((None, 4))
    first, second = redraw.draws([layer], layer.trainable_variables)
    for variable in layer.trainable_variables:
        variable.assign([5.0, 6.0, 7.0, 8.0])
    np.testing.assert_array_equal(first(KEY), np.ones(4))
    np.testing.assert_array_equal(second(KEY), np.zeros(4))


def test_a_weight_of_an_unknown_initializer_is_refused_by_name():
    layer = keras.layers.Dense(3, kernel_initializer="random_normal", name="odd")
    layer.build((None, 2))
    with pytest.raises(UserError, match=r"reset_every is given.* 'odd/kernel'.* out$"):
        redraw.draws([layer], layer.trainable_variables)
