"""Vectors of numbers for the histograms of a log.

A large tensor is sampled evenly, so that a histogram costs the same whatever its size.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfagents_batch.interfaces import Metrics
from tfagents_batch.ops import masked

MOST = 2**14  # numbers of one histogram
# A weight is of the group that its path names; what names none is shared.
GROUPS = {"policy": ("policy", "log_std", "raw_std"), "value": ("value",)}


def rows(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """f32 ``[n]`` of ``[T, B, ...]``: NaN, which the logger drops, where masked."""
    x = masked.safe(tf.cast(x, tf.float32), mask, float("nan"))
    by_row = tf.reshape(x, [mask.shape.num_elements(), -1])
    return tf.reshape(_sampled(by_row, x.shape.num_elements()), [-1])


def tensors(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """f32 ``[n]`` of tensors of any shape, the same share of each."""
    return _joined([_flat(part) for part in parts])


def by_group(prefix: str, parts: Sequence[tf.Tensor], paths: Sequence[str]) -> Metrics:
    """Histograms of weights or gradients: of all, of the policy's and of the value's.

    Args:
      prefix: of the names: "weights" for ``weights/all``.
      parts: one for each weight.
      paths: of the weights. A group without any weight is left out.
    """
    parts = [_flat(part) for part in parts]
    found = {f"{prefix}/all": _joined(parts)}
    for group, words in GROUPS.items():
        own = [
            part
            for part, path in zip(parts, paths, strict=True)
            if any(word in path for word in words)
        ]
        if own:
            found[f"{prefix}/{group}"] = _joined(own)
    return found


def _flat(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tf.cast(x, tf.float32), [-1])


def _joined(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """The same share of each of vectors."""
    size = sum(part.shape[0] for part in parts)
    return tf.concat([_sampled(part, size) for part in parts], 0)


def _sampled(x: tf.Tensor, size: int) -> tf.Tensor:
    """An even share of the rows of what is part of ``size`` numbers."""
    # Odd: axes are mostly even, and no part of one is to be passed over.
    stride = max(1, -(-size // MOST)) | 1
    return x[::stride] if stride > 1 else x
