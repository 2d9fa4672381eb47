"""Adam as published: epsilon is added to the bias-corrected square root."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

BETAS = 0.9, 0.999  # decay of m and of v


class Adam:
    """Algorithm 1 of Kingma and Ba 2015 (arXiv:1412.6980).

    m and v are moving means of g and g^2; after step t the weights move by

        - learning_rate * m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon).

    ``keras.optimizers.Adam`` differs: it adds epsilon to sqrt(v), the variant at the
    end of the paper's section 2. Its effective epsilon is sqrt(1 / (1 - beta_2^t))
    times as large: 30 times in the first step, 3 times in the hundredth. With PPO's
    1e-5, small gradients then hardly count for hundreds of steps. PyTorch and published
    results use the equation above.

    Args:
      weights: the weights to train.
      learning_rate: initial learning rate.
      epsilon: epsilon in the equation.

    Attributes:
      iterations: i64, t; learning_rate: f32; both ``keras.Variable``.
    """

    def __init__(
        self,
        weights: Sequence[keras.Variable],
        learning_rate: float,
        epsilon: float = 1e-8,
    ):
        self._weights, self.epsilon = list(weights), epsilon
        self.iterations = keras.Variable(0, dtype="int64", trainable=False)
        self.learning_rate = keras.Variable(
            learning_rate, dtype="float32", trainable=False
        )
        self._momentums, self._velocities = (
            [
                keras.Variable(np.zeros(x.shape), dtype=x.dtype, trainable=False)
                for x in self._weights
            ]
            for _ in range(2)
        )

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables except the weights, always in the same order."""
        return [
            *(self.iterations, self.learning_rate),
            *self._momentums,
            *self._velocities,
        ]

    def mean_gradients(self) -> list[tf.Tensor]:
        """Return m / (1 - beta_1^t), a mean of about the last 10 gradients."""
        count = tf.cast(self.iterations.value, tf.float32)
        correction = 1 - BETAS[0] ** count
        return [tf.math.divide_no_nan(m.value, correction) for m in self._momentums]

    def step(self, gradients: Sequence[tf.Tensor], compiled: bool = False) -> None:
        """Update every weight with its gradient.

        Args:
          gradients: one for each weight.
          compiled: True if XLA compiles it. Then m and v are kept from being computed a
            second time for the weights, which would need copies of the old m and v.
        """
        beta_1, beta_2 = BETAS
        count = self.iterations.value + 1
        step = tf.cast(count, tf.float32)
        scale = self.learning_rate.value / (1 - beta_1**step)
        correction = 1 - beta_2**step
        # Created once, not per weight, to shorten tracing.
        to_mean, to_square = (tf.constant(1 - beta, tf.float32) for beta in BETAS)
        epsilon = tf.convert_to_tensor(self.epsilon, tf.float32)
        slots = zip(
            *(gradients, self._weights, self._momentums, self._velocities), strict=True
        )
        for gradient, weight, momentum, velocity in slots:
            mean, square = momentum.value, velocity.value
            mean = mean + (gradient - mean) * to_mean
            square = square + (tf.square(gradient) - square) * to_square
            if compiled:  # which TensorFlow annotates as one object
                mean, square = xla.optimization_barrier(mean, square)  # pyright: ignore[reportGeneralTypeIssues]
            root = tf.sqrt(square / correction)
            momentum.assign(mean)
            velocity.assign(square)
            weight.assign(weight.value - scale * mean / (root + epsilon))
        self.iterations.assign(count)
