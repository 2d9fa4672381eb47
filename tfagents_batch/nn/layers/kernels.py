"""Kernels of networks: their initializers, and the dtype they are multiplied in.

Initializers are orthogonal, Glorot's, or by the number of inputs. Each one draws its
own numbers; use it for one kernel only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import keras
import tensorflow as tf

Kind = Literal["orthogonal", "glorot", "fan_in"]
Initializer = Callable[..., tf.Tensor]
IMAGES = "channels_last"  # whatever Keras' global image_data_format is
WIDE = 512  # units from which a layer may compute in half precision, see ``dtype``


def dtype(units: int) -> str | None:
    """Return a hidden layer's dtype policy: Keras' default (None) if it is wide.

    That is what ``--precision`` sets. Narrow layers gain no speed from half precision.
    """
    return None if units >= WIDE else "float32"


def hidden(kind: Kind) -> Initializer:
    """Return a hidden layer's initializer: orthogonal (Saxe et al. 2014), common in
    PPO, or uniform: Glorot and Bengio 2010, or +-1 / sqrt(inputs), as in A3C."""
    return _initializer(kind, gain=math.sqrt(2))


def policy(kind: Kind, scale: float) -> Initializer:
    """Return a policy head's initializer: orthogonal times ``scale``, +-1 /
    sqrt(inputs), or a truncated normal with variance ``scale`` / inputs."""
    if kind == "glorot":
        return keras.initializers.VarianceScaling(scale, "fan_in", "truncated_normal")
    return _initializer(kind, gain=scale)


def value(kind: Kind) -> Initializer:
    """Return the initializer of a value head."""
    return _initializer(kind, gain=1.0)


class PerNetwork:
    """Initializer of the kernels of K networks, ``[K, ...]``: ``make`` returns each."""

    def __init__(self, make: Callable[[], Initializer]):
        self.make = make

    def __call__(self, shape, dtype=None) -> tf.Tensor:
        count, *rest = shape
        return tf.stack([self.make()(rest, dtype) for _ in range(count)])


def _initializer(kind: Kind, gain: float) -> Initializer:
    """Return the initializer of a kind; ``gain`` is the scale of orthogonal kernels."""
    if kind == "orthogonal":
        return keras.initializers.Orthogonal(gain)
    if kind == "fan_in":
        return keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")
    return keras.initializers.GlorotUniform()


def recurrent(kind: Kind, inputs: int) -> Initializer:
    """Return the initializer of a recurrent layer, ``[inputs + units, outputs]``.

    The rows of the inputs come before those of the state. Both blocks are orthogonal,
    or the whole kernel is of another kind.
    """
    if kind != "orthogonal":
        return hidden(kind)
    blocks = keras.initializers.Orthogonal(), keras.initializers.Orthogonal()

    def initialize(shape, dtype=None):
        rows, columns = shape
        sizes = inputs, rows - inputs
        pairs = zip(blocks, sizes, strict=True)
        return tf.concat([block((n, columns), dtype) for block, n in pairs], 0)

    return initialize
