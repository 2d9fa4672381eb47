"""Stored rows as variables, one for each leaf: write rows, read windows."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from tfagents_batch import nest
from tfagents_batch.graph import state
from tfagents_batch.types import Nest

# Bytes of a row from which slices are faster than tf.gather, which XLA computes
# element by element.
_WIDE = 256


class Storage(tf.Module):
    """Rows of a nest, ``[size, ...]`` in each leaf.

    Its methods are meant for programs compiled by XLA, which write in place.

    Args:
      like: nest of ``tf.TensorSpec`` of one row.
      size: number of rows.
    """

    def __init__(self, like: Nest, size: int):
        super().__init__()
        self._leaves = [
            state.variable(tf.zeros([size, *x.shape], state.kept(x.dtype)))
            for x in nest.flatten(like)
        ]
        # A function, because tf.Module rewraps the containers it holds.
        self._like = lambda: like

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return ``{path in the nest: variable}``."""
        return dict(zip(nest.named(self._like()), self._leaves, strict=True))

    def write(self, index: tf.Tensor, values: Nest) -> None:
        """Write a nest of ``[n, B, ...]`` to rows, int32 ``[n * B]``."""
        leaves = nest.flatten(nest.fold(values))
        for variable, rows in zip(self._leaves, leaves, strict=True):
            rows = tf.cast(rows, variable.dtype)
            variable.scatter_update(tf.IndexedSlices(rows, index))

    def gather(self, index: tf.Tensor) -> Nest:
        """Return small rows, nest of ``[*index.shape, ...]``.

        A program that uses some leaves only computes no others.
        """
        return state.pack(self._like(), [tf.gather(x, index) for x in self._leaves])

    def read(self, begin: tf.Tensor, length: int) -> Nest:
        """Return rows from ``begin``, int32 ``[N]``, on: ``[length, N, ...]``."""
        index = begin + tf.range(length)[:, tf.newaxis]

        def leaf(variable):
            if row_bytes(variable) < _WIDE:
                return tf.gather(variable, index)
            return _slices(variable, begin, length)

        return state.pack(self._like(), [leaf(x) for x in self._leaves])


def row_bytes(like: tf.Variable | tf.TensorSpec, axis: int = 1) -> int:
    """Return the bytes of a row behind ``axis`` axes, on the device in force."""
    return like.shape[axis:].num_elements() * state.kept(like.dtype).size


def _slices(variable: tf.Variable, begin: tf.Tensor, length: int) -> tf.Tensor:
    """Return ``[length, N, ...]``: one slice for each of the N windows.

    XLA's own operation, because with ``tf.slice`` a program is compiled anew for each
    value of an argument that ``begin`` depends on, such as the seed.
    """
    shape = [length, *variable.shape[1:]]
    zeros = [0] * (len(shape) - 1)
    rows = variable.read_value()
    windows = [
        xla.dynamic_slice(rows, tf.stack([row, *zeros]), shape)
        for row in tf.unstack(begin)
    ]
    return tf.stack(windows, 1)
