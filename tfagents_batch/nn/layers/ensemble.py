"""Layers of several networks at once, each as one batched matrix product."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from tfagents_batch.nn.layers import kernels

_EPSILON = 1e-6  # of the variance


class EnsembleDense(keras.layers.Layer):
    """Dense layers of K networks, ``[N, F]`` or ``[K, N, F] -> [K, N, units]``.

    With more inputs, see ``EnsembleMLP.call``, it is ``[N, F] -> [K, N M, units]``.

    ``count`` is K; ``initializer`` returns a kernel initializer for each network. With
    ``layer_norm``, units are normalized before the activation (Ba et al. 2016,
    arXiv:1607.06450).
    """

    def __init__(
        self,
        count: int,
        units: int,
        activation: str | None,
        initializer: Callable[[], kernels.Initializer],
        layer_norm: bool = False,
        **kwargs,
    ):
        super().__init__(dtype=kernels.dtype(units), **kwargs)
        self.count, self.units = count, units
        self.kernel_initializer = kernels.PerNetwork(initializer)
        self._layer_norm = layer_norm
        self.activation = keras.activations.get(activation)

    def build(self, input_shape):
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.count, input_shape[-1], self.units),
            initializer=self.kernel_initializer,
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.count, 1, self.units), initializer="zeros"
        )
        if self._layer_norm:
            shape = (self.count, 1, self.units)
            self.scale = self.add_weight(name="scale", shape=shape, initializer="ones")
            self.offset = self.add_weight(
                name="offset", shape=shape, initializer="zeros"
            )

    def call(self, x, first: int | None = None, more=None):
        kernel, bias = self.kernel[:first], self.bias[:first]
        if more is None:
            return self._activated(tf.matmul(x, kernel) + bias, first)
        # The product with the row is made once for its M inputs.
        rows, inputs, size = more.shape
        own = tf.matmul(tf.reshape(more, [rows * inputs, size]), kernel[:, -size:])
        own = tf.reshape(own, [-1, rows, inputs, self.units])
        shared = tf.matmul(x, kernel[:, :-size]) + bias
        joined = shared[:, :, tf.newaxis] + own
        joined = tf.reshape(joined, [-1, rows * inputs, self.units])
        return self._activated(joined, first)

    def _activated(self, x, first: int | None):
        if self._layer_norm:
            mean, variance = tf.nn.moments(x, -1, keepdims=True)
            x = (x - mean) * tf.math.rsqrt(variance + _EPSILON)
            x = x * self.scale[:first] + self.offset[:first]
        return self.activation(x)

    def compute_output_shape(self, shape):
        return (self.count, *shape[-2:-1], self.units)


class EnsembleMLP(keras.layers.Layer):
    """K networks of hidden layers and a linear head, ``[N, F] -> [K, N, units]``."""

    def __init__(
        self,
        count: int,
        hidden: Sequence[int],
        units: int,
        activation: str,
        initializer: kernels.Kind,
        layer_norm: bool = False,
        **kwargs,
    ):
        super().__init__(dtype="float32", **kwargs)
        sizes = [(int(n), activation, kernels.hidden, layer_norm) for n in hidden]
        self.layers = [
            EnsembleDense(count, n, name, lambda kind=kind: kind(initializer), norm)
            for n, name, kind, norm in [*sizes, (units, None, kernels.value, False)]
        ]

    def build(self, input_shape):
        for layer in self.layers:
            layer.build(input_shape)
            input_shape = layer.compute_output_shape(input_shape)

    def call(self, x, first: int | None = None, more=None):
        """Return the outputs of the first ``first`` networks; None for all.

        Args:
          x: f32 ``[N, F]``.
          first: number of networks.
          more: f32 ``[N, M, A]``, M times the last A of F + A inputs of each row; the
            outputs are ``[K, N M, units]``.
        """
        for layer in self.layers:
            x, more = layer(x, first=first, more=more), None
        return x
