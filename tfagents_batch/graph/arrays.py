"""Arrays in a program: those that a loop writes, blocks of a nest, and constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.types import Nest

Blocks = dict[str, tf.Tensor]


def empty(size: int, like: Nest) -> Any:
    """Create an array for each leaf, which a loop writes in place.

    It has ``size`` entries; ``like`` are tensors or specs of one.
    """
    return nest.map(
        lambda x: tf.TensorArray(x.dtype, size, element_shape=x.shape), like
    )


def write(written: Any, index: tf.Tensor, values: Nest) -> Any:
    """Write values at ``index``, int32 ``[]``; return the new arrays."""
    return nest.map(lambda array, x: array.write(index, x), written, values)


def stack(written: Any) -> Nest:
    """Return the arrays as tensors ``[size, ...]``."""
    return nest.map(lambda array: array.stack(), written)


def join(values: Nest) -> Blocks:
    """Return ``{dtype: [n]}``: all numbers of a nest of tensors, by their dtype."""
    rows: dict[str, list[tf.Tensor]] = {}
    for x in nest.flatten(values):
        rows.setdefault(x.dtype.name, []).append(tf.reshape(x, [-1]))
    return {name: tf.concat(parts, 0) for name, parts in sorted(rows.items())}


def split(blocks: Blocks, like: Nest) -> Nest:
    """Return the nest that was joined; ``like`` has its ``tf.TensorSpec``."""
    specs, parts = nest.flatten(like), {}
    for name, block in blocks.items():
        sizes = [x.shape.num_elements() for x in specs if x.dtype.name == name]
        parts[name] = iter(tf.split(block, sizes))
    values = [tf.reshape(next(parts[x.dtype.name]), x.shape) for x in specs]
    return tf.nest.pack_sequence_as(like, values)


def zeros(shape: Sequence[int], dtype: tf.DType = tf.float32) -> tf.Tensor:
    """Return zeros that an operation computes, unlike a small ``tf.zeros``.

    TensorFlow copies a constant that is not a scalar into each branch or loop that uses
    it, under a name that differs between processes. Names are part of XLA's input, so
    XLA's cache never finds such a program again. A tensor computed by an operation is
    not copied.
    """
    return tf.fill(shape, tf.zeros([], dtype))


def argument(value: int, dtype: tf.DType = tf.int32) -> tf.Tensor:
    """Return an integer as an argument of a program.

    ``tf.constant`` keeps each new Python integer and its tensor for ever, 760 bytes, to
    find them again. It does not keep those of NumPy.
    """
    return tf.constant(np.asarray(value, dtype.as_numpy_dtype))
