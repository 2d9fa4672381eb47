"""The deep residual network of IMPALA (Espeholt et al. 2018, arXiv:1802.01561, fig. 3).

It has fifteen 3 x 3 convolutions in three sections; each section halves the image.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from tfagents_batch.nn.layers import kernels

FILTERS = (16, 32, 32)  # of each section
FEATURES = 256


class ImpalaCNN(keras.layers.Layer):
    """CNN from images ``[N, H, W, C]`` in [0, 1] to features ``[N, F]``.

    Its layers use Keras' global dtype policy at the time of construction.
    """

    def __init__(self, filters: Sequence[int] = FILTERS, features: int = FEATURES):
        super().__init__()
        self.sections = [Section(count) for count in filters]
        self.dense = keras.layers.Dense(
            features, "relu", kernel_initializer=kernels.hidden("orthogonal")
        )

    @property
    def stack(self) -> list[keras.layers.Layer]:
        """Sections, then the dense layer."""
        return [*self.sections, self.dense]

    def build(self, input_shape):
        shape = input_shape
        for section in self.sections:
            section.build(shape)
            shape = section.compute_output_shape(shape)
        self.dense.build((shape[0], shape[1] * shape[2] * shape[3]))

    def call(self, x):
        for section in self.sections:
            x = section(x)
        x = tf.nn.relu(x)
        return self.dense(tf.reshape(x, [-1, x.shape[1] * x.shape[2] * x.shape[3]]))


class Section(keras.layers.Layer):
    """A convolution, 3 x 3 max pooling with stride 2, and two residual blocks.

    ``[N, H, W, C]`` to ``[N, ceil(H / 2), ceil(W / 2), filters]``.
    """

    def __init__(self, filters: int):
        super().__init__()
        self.filters = filters
        self.convolution = _convolution(filters)
        self.residuals = [Residual(filters) for _ in range(2)]

    def build(self, input_shape):
        self.convolution.build(input_shape)
        for residual in self.residuals:
            residual.build(self.compute_output_shape(input_shape))

    def compute_output_shape(self, shape):
        batch, height, width, _ = shape
        return batch, -(-height // 2), -(-width // 2), self.filters

    def call(self, x):
        x = tf.nn.max_pool2d(self.convolution(x), 3, 2, "SAME")
        for residual in self.residuals:
            x = residual(x)
        return x


class Residual(keras.layers.Layer):
    """Residual block x + conv(relu(conv(relu(x)))), ``[N, H, W, filters]``."""

    def __init__(self, filters: int):
        super().__init__()
        self.convolutions = [_convolution(filters) for _ in range(2)]

    def build(self, input_shape):
        for convolution in self.convolutions:
            convolution.build(input_shape)

    def call(self, x):
        change = x
        for convolution in self.convolutions:
            change = convolution(tf.nn.relu(change))
        return x + change


def _convolution(filters: int) -> keras.layers.Conv2D:
    return keras.layers.Conv2D(
        filters,
        3,
        padding="same",
        data_format=kernels.IMAGES,
        kernel_initializer=kernels.hidden("orthogonal"),
    )
