"""Noise that is a function of the state: gSDE (Raffin et al. 2021, arXiv:2005.05719).

The noise of an action is x^T (S * E) for features x of the state, trained standard
deviations S and a matrix E of independent standard normals. It is the same function of
the state as long as E is kept, so that actions are smooth. Over all E, it is normal in
every state, with a variance of x^2 S^2 for each number of an action: with that
distribution, policies learn as with independent noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.graph import arrays

_EPSILON = 1e-6  # added to the variance, which is 0 where all features are


class StateNoise(keras.layers.Layer):
    """Noise on A numbers by F features: the layer returns its standard deviation.

    Args:
      trained: ``networks.TrainedStd``, from trained parameters to S, f32 ``[F, A]``.
      size: A.
      learn_features: whether its gradient reaches the features, as in SAC.

    Attributes:
      kernel: trained parameters, f32 ``[F, A]``.
    """

    def __init__(self, trained: Any, size: int, learn_features: bool):
        super().__init__(name="state_noise", dtype="float32")
        self._trained, self._size, self._learns = trained, size, learn_features

    def build(self, input_shape):
        self.kernel = self.add_weight(
            shape=(input_shape[-1], self._size),
            initializer=keras.initializers.Constant(self._trained.start),
            name=self._trained.name,
        )

    def call(self, features):
        """Return sqrt(x^2 S^2 + 1e-6), f32 ``[..., F]`` to ``[..., A]``."""
        features = features if self._learns else tf.stop_gradient(features)
        std = self._trained.of(self.kernel)
        variance = tf.tensordot(tf.square(features), tf.square(std), 1)
        return tf.sqrt(variance + _EPSILON)

    def normal(self, features: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
        """Return x^T (S * E) in units of its standard deviation, f32 ``[N, A]``.

        Args:
          features: x, f32 ``[N, F]``.
          matrix: E, f32 ``[N, F, A]``.
        """
        scaled = self._trained.of(self.kernel) * matrix
        return tf.reduce_sum(features[:, :, tf.newaxis] * scaled, 1) / self(features)


class HeldMatrix(NamedTuple):
    """Acting state of the noise: the matrix of each environment, and its age."""

    matrix: tf.Tensor  # E, f32 [B, F, A]
    age: tf.Tensor  # int32 [B], steps that it has served; 0 before it is drawn


def initial_state(batch: int, kernel: Any) -> HeldMatrix:
    """Return the state before a matrix is drawn; ``kernel`` is ``[F, A]``."""
    return HeldMatrix(
        arrays.zeros([batch, *kernel.shape]), arrays.zeros([batch], tf.int32)
    )


def keys(shape: Sequence[int], seed) -> tf.Tensor:
    """Draw keys of matrices, int32 ``[*shape, 2]``: a matrix in each step is large."""
    return tf.cast(seeds.words([*shape, 2], seeds.key(seed, "matrix")), tf.int32)


def step(state: HeldMatrix, key: tf.Tensor, every) -> tuple[tf.Tensor, HeldMatrix]:
    """Return the matrices of a step, f32 ``[B, F, A]``, and the next state.

    Args:
      state: before the step.
      key: from ``keys``, int32 ``[B, 2]``; the first one draws all matrices.
      every: number of steps for which a matrix is kept.
    """
    new = state.age == 0

    def drawn():
        fresh = seeds.normal(state.matrix.shape, key[0])
        return tf.where(new[:, tf.newaxis, tf.newaxis], fresh, state.matrix)

    # Environments of a rollout are at the same step, so that few steps draw numbers.
    matrix = tf.cond(tf.reduce_any(new), drawn, lambda: tf.identity(state.matrix))
    return matrix, HeldMatrix(matrix, (state.age + 1) % tf.cast(every, tf.int32))
