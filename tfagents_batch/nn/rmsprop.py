"""RMSProp, as PyTorch has it, and as TensorFlow 1 and so GA3C have it."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

DECAY = 0.99


class RMSProp:
    """RMSProp, shared by all actors in Mnih et al. 2016 (arXiv:1602.01783, equation 8).

    g is a moving mean of squared gradients; the weights move by

        - learning_rate * gradient / (sqrt(g) + epsilon)
        - learning_rate * gradient / sqrt(g + epsilon)    with ``inside``

    Without ``inside``, as in PyTorch, g starts at 0: the first steps are up to 10 times
    the learning rate, 1 / sqrt(1 - decay). With it, as in the paper, g starts at 1, as
    TensorFlow 1 did: steps are small until g has decayed, after hundreds of steps. The
    same epsilon matters much more inside, because g is small for most weights.

    Args:
      weights: the weights to train.
      learning_rate: initial learning rate.
      epsilon: epsilon in the equation.
      decay: decay of g.
      inside: whether epsilon is inside of the root.

    Attributes:
      iterations: i64, number of steps; learning_rate: f32; both ``keras.Variable``.
    """

    def __init__(
        self,
        weights: Sequence[keras.Variable],
        learning_rate: float,
        epsilon: float,
        decay: float = DECAY,
        inside: bool = False,
    ):
        self._weights, self._decay, self.epsilon = list(weights), decay, epsilon
        self._inside = inside
        self.iterations = keras.Variable(0, dtype="int64", trainable=False)
        self.learning_rate = keras.Variable(
            learning_rate, dtype="float32", trainable=False
        )
        self._squares = [
            keras.Variable(
                np.full(x.shape, float(inside)), dtype=x.dtype, trainable=False
            )
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
            if self._inside:
                root = tf.sqrt(mean + self.epsilon)
            else:
                root = tf.sqrt(mean) + self.epsilon
            weight.assign(weight.value - rate * gradient / root)
        self.iterations.assign(self.iterations.value + 1)
