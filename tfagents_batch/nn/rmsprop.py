"""RMSProp as A3C and GA3C use it: epsilon inside the root, and squares start at one."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

DECAY = 0.99


class RMSProp:
    """Shared RMSProp of Mnih et al. 2016 (arXiv:1602.01783, equation 8).

    g is a moving mean of squared gradients; the weights move by

        - learning_rate * gradient / sqrt(g + epsilon).

    g starts at 1, as in TensorFlow 1 and so in GA3C. ``keras.optimizers.RMSprop``
    starts it at 0, so its first steps are up to 10 times as large,
    1 / sqrt(1 - decay).

    Args:
      weights: the weights to train.
      learning_rate: initial learning rate.
      epsilon: epsilon in the equation.
      decay: decay of g.

    Attributes:
      iterations: i64, number of steps; learning_rate: f32; both ``keras.Variable``.
    """

    def __init__(
        self,
        weights: Sequence[keras.Variable],
        learning_rate: float,
        epsilon: float,
        decay: float = DECAY,
    ):
        self._weights, self._decay, self.epsilon = list(weights), decay, epsilon
        self.iterations = keras.Variable(0, dtype="int64", trainable=False)
        self.learning_rate = keras.Variable(
            learning_rate, dtype="float32", trainable=False
        )
        self._squares = [
            keras.Variable(np.ones(x.shape), dtype=x.dtype, trainable=False)
            for x in self._weights
        ]

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables except the weights, always in the same order."""
        return [self.iterations, self.learning_rate, *self._squares]

    def mean_gradients(self) -> list[tf.Tensor]:
        """Return nothing: gradients are not kept, see ``Adam.mean_gradients``."""
        return []

    def step(self, gradients: Sequence[tf.Tensor], compiled: bool = False) -> None:
        """Update every weight with its gradient.

        Args:
          gradients: one for each weight.
          compiled: unused, see ``Adam.step``.
        """
        del compiled
        rate = self.learning_rate.value
        slots = zip(gradients, self._weights, self._squares, strict=True)
        for gradient, weight, square in slots:
            mean = square.value
            mean = mean + (tf.square(gradient) - mean) * (1 - self._decay)
            square.assign(mean)
            root = tf.sqrt(mean + self.epsilon)
            weight.assign(weight.value - rate * gradient / root)
        self.iterations.assign(self.iterations.value + 1)
