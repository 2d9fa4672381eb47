"""Building blocks of networks: MLP, heads, towers, convolution stacks, one-hot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import keras
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.graph.function import custom_gradient
from tfagents_batch.nn.layers import kernels

WIDEST = 8  # columns; for more, the matrix product is as fast
WIDER = 4  # times the units of a residual block, between its two layers
EPSILON = 1e-6  # of the variance, in LayerNorm
Mean = Literal["linear", "tanh"]
POLICY_SCALE = 0.01  # policies start near uniform (Andrychowicz et al. 2021, sec. 3.2)


class Stack(keras.layers.Layer):
    """A sequence of layers."""

    def __init__(self, layers: Sequence[keras.layers.Layer], **kwargs):
        super().__init__(**kwargs)
        self.stack = list(layers)

    def build(self, input_shape):
        for layer in self.stack:
            layer.build(input_shape)
            input_shape = layer.compute_output_shape(input_shape)

    def call(self, x):
        for layer in self.stack:
            x = layer(x)
        return x


def mlp(
    sizes: Sequence[int],
    activation: str,
    initializer: kernels.Kind,
    name: str,
    layer_norm: bool = False,
) -> Stack:
    """Build dense layers with one Keras activation, ``[N, F] -> [N, sizes[-1]]``.

    Without sizes it is the identity. With ``layer_norm``, the inputs of activations are
    normalized (Ba et al. 2016).
    """
    layers: list[keras.layers.Layer] = []
    for size in sizes:
        dtype = kernels.dtype(size)
        dense = keras.layers.Dense(
            int(size),
            None if layer_norm else activation,
            kernel_initializer=kernels.hidden(initializer),  # a new one per layer
            dtype=dtype,
        )
        layers.append(dense)
        if layer_norm:
            layers.append(keras.layers.LayerNormalization(dtype=dtype))
            layers.append(keras.layers.Activation(activation, dtype=dtype))
    return Stack(layers, name=name, dtype="float32")


class ResidualBlock(keras.layers.Layer):
    """``x + W2 act(W1 LayerNorm(x))``, ``[N, F] -> [N, F]``, with 4 F units between.

    From SimBa (Lee et al. 2024, arXiv:2410.09754), section 4.
    """

    def __init__(self, units: int, activation: str, initializer: kernels.Kind):
        dtype = kernels.dtype(units)
        super().__init__(dtype=dtype)
        wide, narrow = (
            keras.layers.Dense(
                size, kind, kernel_initializer=kernels.hidden(initializer), dtype=dtype
            )
            for size, kind in ((WIDER * units, activation), (units, None))
        )
        norm = keras.layers.LayerNormalization(epsilon=EPSILON, dtype=dtype)
        self.inner = Stack([norm, wide, narrow], dtype=dtype)

    def build(self, input_shape):
        self.inner.build(input_shape)

    def call(self, x):
        return x + self.inner(x)

    def compute_output_shape(self, shape):
        return shape


def residual(
    sizes: Sequence[int], activation: str, initializer: kernels.Kind, name: str
) -> Stack:
    """Build SimBa's body, ``[N, F] -> [N, units]``: a block for each of equal sizes.

    A linear layer comes before them, and a LayerNorm after them. Without sizes it is
    the identity.
    """
    if not sizes:
        return Stack([], name=name, dtype="float32")
    units = int(sizes[0])
    first = keras.layers.Dense(
        units,
        kernel_initializer=kernels.hidden(initializer),
        dtype=kernels.dtype(units),
    )
    body = [ResidualBlock(units, activation, initializer) for _ in sizes]
    last = keras.layers.LayerNormalization(epsilon=EPSILON, dtype="float32")
    return Stack([first, *body, last], name=name, dtype="float32")


def body(config: Any, sizes: Sequence[int], name: str) -> Stack:
    """Build the hidden layers that ``LayerSettings`` describe, with these sizes."""
    parts = sizes, config.activation, config.initializer, name
    if getattr(config, "body", "mlp") == "residual":
        return residual(*parts)
    return mlp(*parts, getattr(config, "layer_norm", False))


class Head(keras.layers.Dense):
    """A linear layer with few outputs: ``[N, F] -> [N, units]``, in float32."""

    def __init__(self, units: int, initializer: kernels.Initializer, name: str):
        super().__init__(
            units, kernel_initializer=initializer, name=name, dtype="float32"
        )

    # The other arguments of Dense are not needed: Keras passes them by name.
    def call(self, inputs):  # pyright: ignore[reportIncompatibleMethodOverride]
        return matmul(inputs, self.kernel) + self.bias


class PatchConv2D(keras.layers.Conv2D):
    """A convolution of stride 1 without padding, as patches times a matrix.

    XLA computes it several times faster than its own convolution if images are tiny.
    The weights are those of ``keras.layers.Conv2D``.
    """

    def call(self, inputs):
        high, wide = self.kernel_size
        rows, columns = inputs.shape[1] - high + 1, inputs.shape[2] - wide + 1
        corners = [(i, j) for i in range(high) for j in range(wide)]
        parts = [inputs[:, i : i + rows, j : j + columns] for i, j in corners]
        patches = tf.concat(parts, -1)
        size = patches.shape[-1]
        kernel = tf.reshape(self.kernel, [size, self.filters])
        outputs = tf.reshape(patches, [-1, size]) @ kernel + self.bias
        outputs = tf.reshape(outputs, [-1, rows, columns, self.filters])
        return self.activation(outputs)


def image_cnn(
    convolutions: Sequence[tuple[int, int, int]],
    features: int,
    layer: type[keras.layers.Conv2D] = keras.layers.Conv2D,
) -> Stack:
    """Build convolutions and a dense layer: ``[N, H, W, C]`` in [0, 1] to ``[N, F]``.

    The layers use Keras' global dtype policy at the time of this call. Convolutions are
    (filters, kernel size, stride) each; no padding, ReLU.
    """
    kernel = kernels.hidden("orthogonal")
    init = {"activation": "relu", "kernel_initializer": kernel}
    layers = [
        layer(filters, kernel, stride, data_format=kernels.IMAGES, **init)
        for filters, kernel, stride in convolutions
    ]
    flat = [keras.layers.Flatten(kernels.IMAGES), keras.layers.Dense(features, **init)]
    return Stack([*layers, *flat], name="image_cnn")


def nature_cnn() -> Stack:
    """Build the CNN of Mnih et al. 2015 (Nature 518), for 36 x 36 pixels or more."""
    return image_cnn([(32, 8, 4), (64, 4, 2), (64, 3, 1)], 512)


def small_cnn() -> Stack:
    """Build the CNN of Young and Tian 2019 (MinAtar), for 3 x 3 pixels or more."""
    return image_cnn([(16, 3, 1)], 128, PatchConv2D)


class _UniformBiases(Stack):
    """A stack whose biases start uniform within +-1 / sqrt(inputs)."""

    def build(self, input_shape):
        super().build(input_shape)
        for layer in self.stack:
            if getattr(layer, "bias", None) is not None:
                limit = 1 / math.sqrt(math.prod(layer.kernel.shape[:-1]))
                shape = layer.bias.shape
                layer.bias.assign(keras.random.uniform(shape, -limit, limit))
                # For ``redraw``.
                uniform = keras.initializers.RandomUniform(-limit, limit)
                layer.bias_initializer = uniform


def ga3c_cnn(stride: int = 4) -> Stack:
    """Build the CNN of GA3C: convolutions of 16 and 32 filters, and 256 units.

    Babaeizadeh et al. 2017 (arXiv:1611.06256) also measure larger ones, whose first
    convolution has a smaller stride, 3 to 1. All weights start uniform within +-1 /
    sqrt(inputs).
    """

    def init():
        kernel = kernels.hidden("fan_in")
        return {"activation": "relu", "kernel_initializer": kernel}

    images = {"padding": "same", "data_format": kernels.IMAGES}

    layers = [
        keras.layers.Conv2D(16, 8, stride, **images, **init()),
        keras.layers.Conv2D(32, 4, 2, **images, **init()),
        keras.layers.Flatten(kernels.IMAGES),
        keras.layers.Dense(256, **init()),
    ]
    return _UniformBiases(layers, name="image_cnn")


class OneHot(keras.layers.Layer):
    """Concatenated one-hot encodings of integers, ``[N, ...]`` to ``[N, sum(sizes)]``.

    Each integer, in flat order, has a number of values and a smallest one.
    """

    def __init__(self, sizes: Sequence[int], starts: Sequence[int], **kwargs):
        super().__init__(**kwargs)
        self.sizes = [int(size) for size in sizes]
        self.starts = [int(start) for start in starts]

    def call(self, x):
        x = tf.reshape(x, [-1, len(self.sizes)]) - tf.constant(self.starts, x.dtype)
        columns = tf.unstack(x, axis=1)
        hot = [tf.one_hot(c, n) for c, n in zip(columns, self.sizes, strict=True)]
        return tf.concat(hot, axis=1)


def matmul(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Return ``x @ kernel``; its gradients go column by column if there are few.

    XLA's matrix product on a CPU packs both factors into panels, which does not pay off
    for a few columns: the gradients of a 64 by 2 head took as long as those of a 64 by
    64 layer. As matrix-vector products they take a tenth of the time. ``x`` is
    ``[N, F]``, and ``kernel`` ``[F, A]`` with a static A.
    """
    width = nest.static_size(kernel, -1)
    kernel = tf.convert_to_tensor(kernel)  # a variable would be captured
    return _narrow(x, kernel) if 1 < width <= WIDEST else tf.matmul(x, kernel)


@custom_gradient
def _narrow(x, kernel):
    def gradient(upstream):
        columns = tf.unstack(upstream, axis=1)
        rows = tf.unstack(kernel, axis=1)
        to_x = tf.add_n([c[:, None] * r for c, r in zip(columns, rows, strict=True)])
        to_kernel = [tf.linalg.matvec(x, c, transpose_a=True) for c in columns]
        return to_x, tf.stack(to_kernel, axis=1)

    return tf.matmul(x, kernel), gradient


class Towers(keras.Model):
    """Model from observations ``[N, ...]`` to ``{"policy": [N, A], "value": [N]}``.

    The two towers share one encoder, and so its weights (for images), unless the value
    has an encoder of its own; they share nothing else.

    Args:
      encoder: layer or model, observation to features ``[N, F]``.
      hidden, activation, initializer: of each tower's layers.
      size: A, number of outputs that the policy needs.
      policy_scale: scale of the policy head's kernel, see ``kernels.policy``.
      mean: "tanh" keeps the policy's outputs within -1 and 1.
      features: whether the inputs of the policy's head are an output, "features".
      value_encoder: encoder of what the value sees, if the policy sees something else.
    """

    def __init__(
        self,
        encoder,
        hidden: tuple[int, ...],
        activation: str,
        size: int,
        initializer: kernels.Kind = "orthogonal",
        policy_scale: float = POLICY_SCALE,
        mean: Mean = "linear",
        features: bool = False,
        value_encoder=None,
    ):
        super().__init__(name="towers", dtype="float32")
        self.encoder, self.mean, self.features = encoder, mean, features
        self.value_encoder = value_encoder
        self.policy_tower, self.value_tower = (
            mlp(hidden, activation, initializer, name)
            for name in ("policy_tower", "value_tower")
        )
        self.policy_head, self.value_head = heads(size, initializer, policy_scale)

    def build(self, observation_shape):
        """Leave it to the first call, which Keras would otherwise trace before."""

    def call(self, observation, value=True):
        """Return the outputs, of which ``value`` can be left out."""
        features, *others = encoded(self, observation, value)
        inputs = self.policy_tower(features)
        policy = self.policy_head(inputs)
        value = self.value_head(self.value_tower(others[0])) if others else None
        return outputs(policy, value, self.mean, inputs if self.features else None)


def encoded(towers, observation, value: bool) -> list[tf.Tensor]:
    """Return the features ``[N, F]`` of the policy and, if wanted, of the value."""
    features = towers.encoder(observation)
    if not value:
        return [features]
    own = towers.value_encoder
    return [features, features if own is None else own(observation)]


def heads(size: int, initializer: kernels.Kind, policy_scale: float):
    """Return the heads of policy and value."""
    kernel = kernels.policy(initializer, policy_scale)
    policy = Head(size, kernel, name="policy")
    return policy, Head(1, kernels.value(initializer), name="value")


def outputs(
    policy: tf.Tensor,
    value: tf.Tensor | None,
    mean: Mean,
    features: tf.Tensor | None,
) -> dict[str, tf.Tensor]:
    found = {"policy": tf.tanh(policy) if mean == "tanh" else policy}
    found |= {} if value is None else {"value": tf.squeeze(value, -1)}
    return found if features is None else found | {"features": features}
