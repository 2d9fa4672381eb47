"""Noisy layers: exploration by noise in weights (Fortunato et al. 2018).

arXiv:1706.10295. A noisy layer has the weights mu + sigma * noise. The noise of a
weight is a product f(e_in) f(e_out) of two normal numbers with f(x) = sign(x)
sqrt(abs(x)) (equations 10 and 11). So every row can have noise of its own: with inputs
x, the noisy part is ((x * f(e_in)) sigma) * f(e_out).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import keras
import tensorflow as tf

from tfagents_batch import seeds

_START = 0.5  # sigma_0 of the paper


class LayerNoise(NamedTuple):
    """Noise of a layer: f32 ``[..., inputs]`` and ``[..., units]``."""

    inputs: tf.Tensor
    outputs: tf.Tensor


class NoisyDense(keras.layers.Dense):
    """A dense layer with noisy weights, ``[N, F] -> [N, units]``, in float32.

    Without noise it is a dense layer with the weights mu.
    """

    def __init__(self, units: int, activation=None, **kwargs):
        super().__init__(units, activation, dtype="float32", **kwargs)

    def build(self, input_shape):
        super().build(input_shape)
        inputs = input_shape[-1]
        start = _START / math.sqrt(inputs)
        constant = keras.initializers.Constant(start)
        self.sigma = self.add_weight(
            name="sigma", shape=(inputs, self.units), initializer=constant
        )
        self.bias_sigma = self.add_weight(
            name="bias_sigma", shape=(self.units,), initializer=constant
        )

    # The other arguments of Dense are not needed: Keras passes them by name.
    def call(self, x, noise: LayerNoise | None = None):  # pyright: ignore[reportIncompatibleMethodOverride]
        y = tf.matmul(x, self.kernel) + self.bias
        if noise is not None:
            noisy = tf.matmul(x * noise.inputs, self.sigma) + self.bias_sigma
            y += noisy * noise.outputs
        return self.activation(y)

    def noise(self, shape, key: tf.Tensor) -> LayerNoise:
        """Draw noise with the leading axes ``shape``."""
        inputs, units = self.sigma.shape
        drawn = seeds.normal([*shape, inputs + units], key)
        drawn = tf.sign(drawn) * tf.sqrt(tf.abs(drawn))
        return LayerNoise(drawn[..., :inputs], drawn[..., inputs:])
