import keras
import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.nn.optimizer import Adam


@pytest.mark.parametrize("epsilon, jit", [(1e-8, True), (1e-2, False)])
def test_steps_follow_algorithm_1_of_the_paper(epsilon, jit):
    random = np.random.default_rng(0)
    gradients = random.normal(size=(200, 3)) * [1e-4, 1e-2, 1.0]
    weight, rate, beta_1, beta_2 = np.array([1.0, -2.0, 3.0]), 1e-2, 0.9, 0.999
    variable = keras.Variable(weight, dtype="float32")
    adam = Adam([variable], rate, epsilon=epsilon)

    @tf.function(jit_compile=jit, autograph=False)
    def step(gradient):
        adam.step([gradient])

    mean, square = np.zeros(3), np.zeros(3)
    for t, gradient in enumerate(gradients, 1):
        step(tf.constant(gradient, tf.float32))
        mean = beta_1 * mean + (1 - beta_1) * gradient
        square = beta_2 * square + (1 - beta_2) * gradient**2
        corrected = mean / (1 - beta_1**t), square / (1 - beta_2**t)
        weight = weight - rate * corrected[0] / (np.sqrt(corrected[1]) + epsilon)
        np.testing.assert_allclose(variable.numpy(), weight, 1e-4, 1e-5)


def test_steps_equal_those_of_keras_for_a_tiny_epsilon():
    weights = [keras.Variable([1.0, 2.0]) for _ in range(2)]
    ours = Adam([weights[0]], 0.1, epsilon=1e-30)
    theirs = keras.optimizers.Adam(0.1, epsilon=1e-30)
    for gradient in ([0.1, -1.0], [0.3, 0.2], [-2.0, 0.0]):
        ours.step([tf.constant(gradient)])
        theirs.apply([tf.constant(gradient)], [weights[1]])
    np.testing.assert_allclose(weights[0].numpy(), weights[1].numpy(), 1e-5)


def test_mean_gradients_are_corrected_for_starting_at_zero():
    adam = Adam([keras.Variable([1.0, 2.0])], 0.1)
    np.testing.assert_array_equal(adam.mean_gradients()[0], [0, 0])
    for _ in range(3):
        adam.step([tf.constant([0.5, -2.0])])
        np.testing.assert_allclose(adam.mean_gradients()[0], [0.5, -2.0], rtol=1e-5)
