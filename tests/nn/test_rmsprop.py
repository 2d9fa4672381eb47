"""RMSProp against its equation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfagents_batch.nn.optimizer import Optimizer


@pytest.mark.parametrize(
    ("rule", "start", "root"),
    [
        ("rmsprop", 0.0, lambda square: np.sqrt(square) + 0.1),  # as in PyTorch
        ("rmsprop_tf", 1.0, lambda square: np.sqrt(square + 0.1)),
    ],
)
def test_ten_steps_are_those_of_the_equation(rule, start, root):
    weight = keras.Variable([1.0, -2.0])
    optimizer = Optimizer([weight], None, epsilon=0.1, rule=rule)
    optimizer.set_learning_rate(0.01)
    x, square = np.array([1.0, -2.0]), np.full(2, start)
    for step in range(10):
        gradient = np.array([0.3, -4.0]) * (step + 1)
        optimizer.apply([tf.constant(gradient, tf.float32)])
        square = 0.99 * square + 0.01 * gradient**2
        x -= 0.01 * gradient / root(square)
        np.testing.assert_allclose(weight, x, rtol=1e-5)
