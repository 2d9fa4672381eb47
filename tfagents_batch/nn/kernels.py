"""Initial kernels of networks: orthogonal ones, or those of Glorot.

Each is an initializer that draws its own numbers, to be used for one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import keras
import tensorflow as tf

Kind = Literal["orthogonal", "glorot"]
Initializer = Callable[..., tf.Tensor]


def hidden(kind: Kind) -> Initializer:
    """Initializer of a hidden layer: orthogonal (Saxe et al. 2014), as PPO
    implementations use it, or uniform (Glorot and Bengio 2010)."""
    if kind == "orthogonal":
        return keras.initializers.Orthogonal(math.sqrt(2))
    return keras.initializers.GlorotUniform()


def policy(kind: Kind, scale: float) -> Initializer:
    """Initializer of a policy head: orthogonal times ``scale``, or a truncated normal
    with a variance of ``scale`` over the number of inputs."""
    if kind == "orthogonal":
        return keras.initializers.Orthogonal(scale)
    return keras.initializers.VarianceScaling(scale, "fan_in", "truncated_normal")


def value(kind: Kind) -> Initializer:
    """Initializer of a value head."""
    if kind == "orthogonal":
        return keras.initializers.Orthogonal(1.0)
    return keras.initializers.GlorotUniform()


def recurrent(kind: Kind, inputs: int) -> Initializer:
    """Of a recurrent layer's gates, ``[inputs + units, outputs]``: the rows of its
    inputs stand before those of its state.

    Both blocks are orthogonal, or the kernel as a whole is Glorot's.
    """
    if kind == "glorot":
        return keras.initializers.GlorotUniform()
    blocks = keras.initializers.Orthogonal(), keras.initializers.Orthogonal()

    def initialize(shape, dtype=None):
        rows, columns = shape
        sizes = inputs, rows - inputs
        pairs = zip(blocks, sizes, strict=True)
        return tf.concat([block((n, columns), dtype) for block, n in pairs], 0)

    return initialize
