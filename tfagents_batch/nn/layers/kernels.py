"""Kernel initializers of networks: orthogonal, or Glorot's.

Each initializer draws its own numbers; use it for one kernel only.
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
    """Return a hidden layer's initializer: orthogonal (Saxe et al. 2014), common in
    PPO, or uniform (Glorot and Bengio 2010)."""
    if kind == "orthogonal":
        return keras.initializers.Orthogonal(math.sqrt(2))
    return keras.initializers.GlorotUniform()


def policy(kind: Kind, scale: float) -> Initializer:
    """Return a policy head's initializer: orthogonal times ``scale``, or a truncated
    normal with variance ``scale`` / number of inputs."""
    if kind == "orthogonal":
        return keras.initializers.Orthogonal(scale)
    return keras.initializers.VarianceScaling(scale, "fan_in", "truncated_normal")


def value(kind: Kind) -> Initializer:
    """Return the initializer of a value head."""
    if kind == "orthogonal":
        return keras.initializers.Orthogonal(1.0)
    return keras.initializers.GlorotUniform()


def recurrent(kind: Kind, inputs: int) -> Initializer:
    """Return the initializer of a recurrent layer, ``[inputs + units, outputs]``.

    The rows of the inputs come before those of the state. Both blocks are orthogonal,
    or the whole kernel is Glorot's.
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
