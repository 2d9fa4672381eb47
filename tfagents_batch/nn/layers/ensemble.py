"""Layers of several networks at once, each as one batched matrix product."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from tfagents_batch.nn.layers import kernels


class EnsembleDense(keras.layers.Layer):
    """Dense layers of K networks, ``[N, F]`` or ``[K, N, F] -> [K, N, units]``.

    With more inputs, see ``EnsembleMLP.call``, it is ``[N, F] -> [K, N M, units]``.

    ``count`` is K; ``initializer`` returns a kernel initializer for each network.
    """

    def __init__(
        self,
        count: int,
        units: int,
        activation: str | None,
        initializer: Callable[[], kernels.Initializer],
        **kwargs,
    ):
        super().__init__(dtype=kernels.dtype(units), **kwargs)
        self.count, self.units, self._initializer = count, units, initializer
        self.activation = keras.activations.get(activation)

    def build(self, input_shape):
        def draw(shape, dtype=None):
            count, *rest = shape
            return tf.stack([self._initializer()(rest, dtype) for _ in range(count)])

        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.count, input_shape[-1], self.units),
            initializer=draw,
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.count, 1, self.units), initializer="zeros"
        )

    def call(self, x, first: int | None = None, more=None):
        kernel, bias = self.kernel[:first], self.bias[:first]
        if more is None:
            return self.activation(tf.matmul(x, kernel) + bias)
        # The product with the row is made once for its M inputs.
        rows, inputs, size = more.shape
        own = tf.matmul(tf.reshape(more, [rows * inputs, size]), kernel[:, -size:])
        own = tf.reshape(own, [-1, rows, inputs, self.units])
        shared = tf.matmul(x, kernel[:, :-size]) + bias
        joined = self.activation(shared[:, :, tf.newaxis] + own)
        return tf.reshape(joined, [-1, rows * inputs, self.units])

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
        **kwargs,
    ):
        super().__init__(dtype="float32", **kwargs)
        sizes = [(int(n), activation, kernels.hidden) for n in hidden]
        self.layers = [
            EnsembleDense(count, n, name, lambda kind=kind: kind(initializer))
            for n, name, kind in [*sizes, (units, None, kernels.value)]
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
