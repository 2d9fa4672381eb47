"""Weights drawn anew inside a program, by the initializers of Keras' layers.

Keras draws in Python. Here the key comes from ``seeds``, so compiled and eager code
draw the same numbers, but for rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.initializers import Orthogonal, RandomUniform, VarianceScaling

from tfagents_batch import seeds
from tfagents_batch.errors import UserError
from tfagents_batch.nn.layers.kernels import PerNetwork

_CUT_STD = 0.87962566103423978  # of a standard normal cut off at -2 and 2


def draws(
    layers: Iterable[keras.layers.Layer], weights: Iterable[keras.Variable]
) -> list[Callable[[tf.Tensor], tf.Tensor]]:
    """Return how each weight is drawn anew, a function of an int32 ``[2]`` key.

    Weights whose numbers are all equal at the start, as of biases, get these again.

    Raises:
      UserError: for a weight that is neither drawn by an initializer nor constant.
    """
    initializers = {
        id(getattr(layer, name.removesuffix("_initializer"), None)): value
        for layer in layers
        for name, value in vars(layer).items()
        if name.endswith("_initializer")
        and isinstance(value, (Orthogonal, PerNetwork, RandomUniform, VarianceScaling))
    }
    found: list[Callable[[tf.Tensor], tf.Tensor]] = []
    for weight in weights:
        start = np.ravel(weight.numpy())[:1]
        if initializer := initializers.get(id(weight)):
            found.append(functools.partial(draw, initializer, weight.shape))
        elif np.all(weight.numpy() == start):
            fill = functools.partial(tf.fill, weight.shape, start[0])
            found.append(lambda key, fill=fill: fill())
        else:
            raise UserError(
                "reset_every is given, but no known initializer draws weight "
                f"{weight.path!r} of a network; expected a layer of Keras with an "
                "orthogonal, Glorot, He, LeCun or uniform one; change it, or leave "
                "--algorithm.reset_every out"
            )
    return found


def draw(
    initializer: Any, shape: Sequence[int], key: tf.Tensor, count: Sequence[int] = ()
) -> tf.Tensor:
    """Draw f32 ``[*count, *shape]``, weights of the shape, as an initializer does."""
    full, fields = [*count, *shape], math.prod(shape[:-2])
    if isinstance(initializer, PerNetwork):
        return draw(initializer.make(), shape[1:], key, shape[:1])
    if isinstance(initializer, RandomUniform):
        return seeds.uniform(full, key, initializer.minval, initializer.maxval)
    inputs, outputs = shape[-2:] if len(shape) > 1 else (shape[0], shape[0])
    if isinstance(initializer, Orthogonal):
        rows = fields * inputs
        size = max(rows, outputs), min(rows, outputs)
        q = _orthonormal(seeds.normal([*count, *size], key))
        q = q if rows >= outputs else tf.linalg.matrix_transpose(q)
        return initializer.gain * tf.reshape(q, full)
    fans = {"fan_in": inputs, "fan_out": outputs}
    fan = fields * fans.get(initializer.mode, (inputs + outputs) / 2)
    std = math.sqrt(initializer.scale / max(1.0, fan))
    if initializer.distribution == "uniform":
        return seeds.uniform(full, key, -math.sqrt(3) * std, math.sqrt(3) * std)
    if initializer.distribution == "untruncated_normal":
        return std * seeds.normal(full, key)
    most = math.erf(math.sqrt(2))  # share of numbers between -2 and 2
    drawn = tf.math.erfinv(seeds.uniform(full, key, -most, most))
    return std / _CUT_STD * math.sqrt(2) * drawn


def _orthonormal(a: tf.Tensor) -> tf.Tensor:
    """Return Q of A = QR, where R has a positive diagonal: f32 ``[..., m, n]``, m >= n.

    By Gram-Schmidt, twice for each column (Giraud et al. 2005), because XLA needs
    seconds to compile its own decomposition.
    """
    count = a.shape[-1]

    def body(index, q):
        column = tf.gather(a, index, axis=-1)
        for _ in range(2):
            parts = tf.linalg.matvec(q, column, transpose_a=True)
            column -= tf.linalg.matvec(q, parts)
        column /= tf.norm(column, axis=-1, keepdims=True)
        return index + 1, q + column[..., tf.newaxis] * tf.one_hot(index, count)

    start = tf.constant(0), tf.zeros_like(a)
    return tf.while_loop(lambda index, _: index < count, body, start)[1]
