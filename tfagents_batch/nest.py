"""Nested tensors: fold and unfold leading axes, select, join, describe, name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import tensorflow as tf

from tfagents_batch import spaces
from tfagents_batch.types import Nest

flatten = tf.nest.flatten
map = tf.nest.map_structure


def fold(nest: Nest) -> Nest:
    """Reshape ``[T, B, ...]`` leaves to ``[T * B, ...]``."""
    return map(lambda x: tf.reshape(x, [-1, *x.shape[2:]]), nest)


def unfold(nest: Nest, time: int, batch: int) -> Nest:
    """Reshape ``[T * B, ...]`` leaves to ``[T, B, ...]``."""
    return map(lambda x: tf.reshape(x, [time, batch, *x.shape[1:]]), nest)


def batch_apply(function: Callable[..., Nest], *nests: Nest) -> Nest:
    """Apply a function of ``[N, ...]`` rows to ``[T, B, ...]`` nests, N = T * B."""
    time, batch = flatten(nests)[0].shape[:2]
    return unfold(function(*fold(nests)), time, batch)


def where(condition: tf.Tensor, x: Nest, y: Nest) -> Nest:
    """Select rows of ``x`` where the condition is true, else of ``y``, in every leaf.

    Args:
      condition: bool, any prefix of the leaves' shape (so also a scalar).
    """

    def select(x, y):
        extra = [1] * (len(x.shape) - len(condition.shape))
        if condition.shape.is_fully_defined():
            shape = [*condition.shape, *extra]
        else:
            shape = tf.concat([tf.shape(condition), tf.constant(extra, tf.int32)], 0)
        return tf.where(tf.reshape(condition, shape), x, y)

    return map(select, x, y)


def size(x: tf.Tensor) -> int | tf.Tensor:
    """Return the size of the first axis, as a tensor if it is not known."""
    return tf.shape(x)[0] if x.shape[0] is None else x.shape[0]


def static_size(x: tf.Tensor, axis: int = 0) -> int:
    """Return the size of an axis, which is known while a function is traced."""
    size = x.shape[axis]
    assert size is not None
    return size


def gather(nest: Nest, index: tf.Tensor) -> Nest:
    """Gather the rows ``index`` of the first axis of every leaf."""
    return map(lambda x: tf.gather(x, index), nest)


def specs(space: gymnasium.Space, leading: Sequence[int | None] = ()) -> Nest:
    """Return the nest of ``tf.TensorSpec`` of a space's values in the graph.

    Args:
      space: any supported gymnasium space.
      leading: sizes of the leading axes, for example ``(B,)``.
    """
    leaves = [
        tf.TensorSpec([*leading, *leaf.shape], tf.as_dtype(leaf.dtype), name=leaf.name)
        for leaf in spaces.leaves(space)
    ]
    return spaces.pack(space, leaves)


def specs_of(nest: Nest) -> Nest:
    """Return the ``tf.TensorSpec`` of every tensor or variable."""
    return map(lambda x: tf.TensorSpec(x.shape, tf.as_dtype(x.dtype)), nest)


def named(nest: Nest, prefix: str = "") -> dict[str, Any]:
    """Return the leaves in their order by name, such as ``observation/image``."""
    if isinstance(nest, Mapping):
        parts: Any = sorted(nest.items())
    elif hasattr(nest, "_fields"):
        parts = zip(nest._fields, nest, strict=True)
    elif isinstance(nest, (list, tuple)):
        parts = enumerate(nest)
    else:
        return {prefix or "value": nest}
    found = {}
    for name, part in parts:
        found |= named(part, f"{prefix}/{name}" if prefix else str(name))
    return found


def prefixed(prefix: str, named: dict[str, Any]) -> dict[str, Any]:
    """Return named tensors or variables with ``prefix/`` before each name.

    The names of a dict inside get its own name as a further prefix.
    """
    found = {}
    for name, x in named.items():
        path = f"{prefix}/{name}"
        found |= prefixed(path, x) if isinstance(x, dict) else {path: x}
    return found
