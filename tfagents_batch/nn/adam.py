"""Adam as published: epsilon is added to the bias-corrected root."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf


class Adam:
    """Algorithm 1 of Kingma and Ba 2015 (arXiv:1412.6980).

    m and v are moving means of g and g^2; after step t the weights move by

        - learning_rate * m / (1 - beta_1^t) / (sqrt(v / (1 - beta_2^t)) + epsilon).

    Not Keras' own, which adds epsilon to sqrt(v), the variant at the end of their
    section 2; that makes it sqrt(1 / (1 - beta_2^t)) times as large: 30 times in the
    first step, 3 times in the hundredth. With the 1e-5 that PPO uses, small gradients
    then hardly count for hundreds of steps; PyTorch and published results have the one
    above. Nor can Keras' own be done to values instead of variables, see
    ``ops.carried``.

    Args:
      weights: that are trained.
      learning_rate: at the start.
      beta_1, beta_2: decay of m and of v.
      epsilon: as above.

    Attributes:
      iterations: i64, t; learning_rate: f32; both ``keras.Variable``.
    """

    def __init__(
        self,
        weights: Sequence[keras.Variable],
        learning_rate: float,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
    ):
        self._weights = list(weights)
        self._betas, self.epsilon = (beta_1, beta_2), epsilon
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
        """Everything but the weights, always in the same order."""
        return [
            *(self.iterations, self.learning_rate),
            *self._momentums,
            *self._velocities,
        ]

    def mean_gradients(self) -> list[tf.Tensor]:
        """m corrected, m / (1 - beta_1^t): a mean of about the last 10 gradients."""
        taken = tf.cast(self.iterations.value, tf.float32)
        share = 1 - self._betas[0] ** taken
        return [tf.math.divide_no_nan(m.value, share) for m in self._momentums]

    def step(self, gradients: Sequence[tf.Tensor]) -> None:
        """Move every weight by its gradient."""
        beta_1, beta_2 = self._betas
        taken = self.iterations.value + 1
        step = tf.cast(taken, tf.float32)
        scale = self.learning_rate.value / (1 - beta_1**step)
        correction = 1 - beta_2**step
        # Created once, not per weight, to shorten tracing.
        to_mean, to_square = (tf.constant(1 - beta, tf.float32) for beta in self._betas)
        epsilon = tf.constant(self.epsilon, tf.float32)
        slots = zip(
            *(gradients, self._weights, self._momentums, self._velocities), strict=True
        )
        for gradient, weight, momentum, velocity in slots:
            mean, square = momentum.value, velocity.value
            mean = mean + (gradient - mean) * to_mean
            square = square + (tf.square(gradient) - square) * to_square
            root = tf.sqrt(square / correction)
            momentum.assign(mean)
            velocity.assign(square)
            weight.assign(weight.value - scale * mean / (root + epsilon))
        self.iterations.assign(taken)
