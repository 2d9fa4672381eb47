"""Layers of several networks at once, each as one batched matrix product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.nn.layers import blocks, kernels
from tfagents_batch.nn.layers.batch_renorm import BatchRenorm, Which, of


class Hidden(NamedTuple):
    """Steps after the product of a hidden layer, in this order.

    Attributes:
      dropout: probability with which a unit is 0 (Srivastava et al. 2014), before
        LayerNorm as in DroQ.
      layer_norm: whether units are normalized (Ba et al. 2016, arXiv:1607.06450).
      activation: name of the activation.
      batch_renorm: whether each unit is normalized over a batch, as is each input of
        the first layer, see ``BatchRenorm``.
      residual: whether layers are residual blocks instead, see ``blocks.residual``;
        of the others, they have the activation alone.
    """

    dropout: float = 0.0
    layer_norm: bool = False
    activation: str | None = None
    batch_renorm: bool = False
    residual: bool = False


class EnsembleNorm(keras.layers.Layer):
    """LayerNorm of K networks, ``[K, N, F] -> [K, N, F]``."""

    def build(self, input_shape):
        shape = (input_shape[0], 1, input_shape[-1])
        self.scale = self.add_weight(name="scale", shape=shape, initializer="ones")
        self.offset = self.add_weight(name="offset", shape=shape, initializer="zeros")

    def call(self, x, which: Which = None, **_):
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        x = (x - mean) * tf.math.rsqrt(variance + blocks.EPSILON)
        return x * of(self.scale, which) + of(self.offset, which)

    def compute_output_shape(self, shape):
        return shape


class EnsembleDense(keras.layers.Layer):
    """Dense layers of K networks, ``[N, F]`` or ``[K, N, F] -> [K, N, units]``.

    With more inputs, see ``EnsembleMLP.call``, it is ``[N, F] -> [K, N M, units]``.

    ``count`` is K; ``initializer`` returns a kernel initializer for each network.
    """

    def __init__(
        self,
        count: int,
        units: int,
        initializer: Callable[[], kernels.Initializer],
        then: Hidden,
        **kwargs,
    ):
        super().__init__(dtype=kernels.dtype(units), **kwargs)
        self.count, self.units = count, units
        self.kernel_initializer = kernels.PerNetwork(initializer)
        self._then = then
        self.activation = keras.activations.get(then.activation)
        norm = EnsembleNorm(dtype=kernels.dtype(units))
        self.norm = norm if then.layer_norm else None
        self._renorm = BatchRenorm() if then.batch_renorm else None

    def build(self, input_shape):
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.count, input_shape[-1], self.units),
            initializer=self.kernel_initializer,
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.count, 1, self.units), initializer="zeros"
        )
        shape = (self.count, 1, self.units)
        if self.norm is not None:
            self.norm.build(shape)
        if self._renorm is not None:
            self._renorm.build(shape)

    def call(self, x, which: Which = None, more=None, key=None, rows=None):
        kernel, bias = of(self.kernel, which), of(self.bias, which)
        if more is None:
            return self._followed(tf.matmul(x, kernel) + bias, which, key, rows)
        # The product with the row is made once for its M inputs.
        count, inputs, size = more.shape
        own = tf.matmul(tf.reshape(more, [count * inputs, size]), kernel[:, -size:])
        own = tf.reshape(own, [-1, count, inputs, self.units])
        shared = tf.matmul(x, kernel[:, :-size]) + bias
        joined = shared[:, :, tf.newaxis] + own
        joined = tf.reshape(joined, [-1, count * inputs, self.units])
        return self._followed(joined, which, key, rows)

    def _followed(self, x, which: Which, key, rows):
        if self._then.dropout and key is not None:
            dropped = seeds.coins(x.shape, key, self._then.dropout)
            x = tf.where(dropped, tf.zeros([], x.dtype), x / (1 - self._then.dropout))
        if self.norm is not None:
            x = self.norm(x, which=which)
        x = self.activation(x)
        return x if self._renorm is None else self._renorm(x, which=which, rows=rows)

    def compute_output_shape(self, shape):
        return (self.count, *shape[-2:-1], self.units)


class EnsembleResidual(keras.layers.Layer):
    """Residual blocks of K networks, ``[K, N, F] -> [K, N, F]``, see ``blocks``."""

    def __init__(
        self,
        count: int,
        units: int,
        initializer: Callable[[], kernels.Initializer],
        then: Hidden,
    ):
        super().__init__(dtype=kernels.dtype(units))
        active, linear = Hidden(activation=then.activation), Hidden()
        self.norm = EnsembleNorm(dtype=kernels.dtype(units))
        self.wide = EnsembleDense(count, blocks.WIDER * units, initializer, active)
        self.narrow = EnsembleDense(count, units, initializer, linear)

    def build(self, input_shape):
        for layer in (self.norm, self.wide, self.narrow):
            layer.build(input_shape)
            input_shape = layer.compute_output_shape(input_shape)

    def call(self, x, which: Which = None, **_):
        wide = self.wide(self.norm(x, which=which), which=which)
        return x + self.narrow(wide, which=which)

    def compute_output_shape(self, shape):
        return shape


class EnsembleMLP(keras.layers.Layer):
    """K networks of hidden layers and a linear head, ``[N, F] -> [K, N, units]``."""

    def __init__(
        self,
        count: int,
        hidden: Sequence[int],
        units: int,
        initializer: kernels.Kind,
        then: Hidden,
        **kwargs,
    ):
        super().__init__(dtype="float32", **kwargs)

        def layer(n, kind=kernels.hidden, follows=then, of_kind=EnsembleDense):
            return of_kind(count, int(n), lambda: kind(initializer), follows)

        if then.residual and hidden:
            residual = [layer(n, of_kind=EnsembleResidual) for n in hidden]
            last = EnsembleNorm(dtype="float32")
            body = [layer(hidden[0], follows=Hidden()), *residual, last]
        else:
            body = [layer(n) for n in hidden]
        self.layers = [*body, layer(units, kernels.value, Hidden())]
        self._first = BatchRenorm() if then.batch_renorm else None

    def build(self, input_shape):
        if self._first is not None:
            self._first.build((self.layers[0].count, 1, input_shape[-1]))
        for layer in self.layers:
            layer.build(input_shape)
            input_shape = layer.compute_output_shape(input_shape)

    def call(self, x, which: Which = None, more=None, key=None, rows=None):
        """Return the outputs of some networks.

        Args:
          x: f32 ``[N, F]``.
          which: which networks.
          more: f32 ``[N, M, A]``, M times the last A of F + A inputs of each row; the
            outputs are ``[K, N M, units]``. Not with BatchRenorm.
          key: int32 ``[2]``, of dropout; None for none.
          rows: bool ``[N]``, those whose statistics BatchRenorm uses and keeps; None to
            use those it kept.
        """
        keys = [None] * len(self.layers)
        if key is not None:
            keys = seeds.split(key, len(self.layers))
        if self._first is not None:
            x = self._first(x, which=which, rows=rows)
        for layer, own in zip(self.layers, keys, strict=True):
            x, more = layer(x, which=which, more=more, key=own, rows=rows), None
        return x
