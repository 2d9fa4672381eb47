"""Nests of tensors as one block for each dtype, to be copied between devices."""

from __future__ import annotations

import math
from collections.abc import Iterator

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.types import Nest

Blocks = dict[str, tf.Tensor]


def join(values: Nest) -> Blocks:
    """Return ``{dtype: [n]}``: all numbers of a nest of tensors, by their dtype."""
    rows: dict[str, list[tf.Tensor]] = {}
    for x in nest.flatten(values):
        rows.setdefault(x.dtype.name, []).append(tf.reshape(x, [-1]))
    return {name: tf.concat(parts, 0) for name, parts in sorted(rows.items())}


def split(blocks: Blocks, like: Nest) -> Nest:
    """Return the nest that was joined.

    Args:
      blocks: from ``join``.
      like: nest of ``tf.TensorSpec``.
    """
    specs = nest.flatten(like)
    parts = {name: _parts(blocks[name], name, specs) for name in blocks}
    values = [next(parts[x.dtype.name]) for x in specs]
    return tf.nest.pack_sequence_as(like, values)


def _parts(
    block: tf.Tensor, name: str, specs: list[tf.TensorSpec]
) -> Iterator[tf.Tensor]:
    shapes = [x.shape for x in specs if x.dtype.name == name]
    sizes = [math.prod(shape) for shape in shapes]
    for part, shape in zip(tf.split(block, sizes), shapes, strict=True):
        yield tf.reshape(part, shape)
