"""Stateless randomness: every draw is keyed by (run seed, global step, purpose).

``iteration_seed`` folds the first two on the host, ``key`` folds the purpose in the
graph. Draws are made of the words of a counter-based generator, Threefry-2x32 with 20
rounds (Salmon et al., 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"), written in
elementwise integer ops. So eager code, graphs and XLA see the same words, which
TensorFlow's own floats are not; and keys may have leading axes under
``tf.vectorized_map``, which TensorFlow's stateless ops do one after the other.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_ROUNDS = 20
_PARITY = 0x1BD11BDA


def iteration_seed(
    run_seed: int | tf.Tensor, step: int | tf.Tensor, stream: str = "train"
) -> int | tf.Tensor:
    """Seed of what starts at ``step``, in ``[0, 2**31)``.

    Args:
      run_seed: the run's, below 2**31.
      step: environment steps done.
      stream: what for; streams are independent of each other.

    Returns:
      An int; for tensors, int32 and int64 ``[...]``, the same as int32 ``[...]``.
    """
    tag = np.uint32(zlib.crc32(stream.encode()))
    if tf.is_tensor(step):
        key = tf.cast(run_seed, tf.uint32), tf.fill(tf.shape(step), tag)
        counter = tf.cast(step, tf.uint32), tf.cast(step // 2**32, tf.uint32)
        return tf.cast(_shifted(threefry(key, counter)[0], 1), tf.int32)
    key = np.array([run_seed], np.uint32), np.array([tag])
    counter = (np.array([part], np.uint32) for part in (step % 2**32, step // 2**32))
    return int(threefry(key, tuple(counter))[0][0] >> 1)


def key(seed: int | tf.Tensor, purpose: str) -> tf.Tensor:
    """int32 ``[2]`` seed for one stateless op; one purpose, one stream of numbers."""
    tag = zlib.crc32(purpose.encode()) >> 1
    return tf.stack([tf.cast(seed, tf.int32), tf.constant(tag, tf.int32)])


def fold(key: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """int32 ``[..., 2]`` key of draw number ``index`` (int32 ``[...]``) of a stream."""
    golden = np.int32(0x9E3779B1 - 2**32)  # odd: distinct for 2**32 indices
    step = tf.cast(index, tf.int32) * golden
    return key + tf.stack([step, tf.zeros_like(step)], -1)


def split(key: tf.Tensor, count: int = 2) -> list[tf.Tensor]:
    """``count`` int32 ``[2]`` keys of independent streams."""
    return tf.unstack(tf.cast(words([count, 2], key), tf.int32))


def uniform(
    shape: Sequence[int], key: tf.Tensor, low: float = 0.0, high: float = 1.0
) -> tf.Tensor:
    """f32 ``shape`` in [low, high), which are numbers: one of 2^23 even steps."""
    bits = _shifted(words(shape, key), 9)
    x = tf.cast(bits, tf.float32) * 2.0**-23
    if low == 0 and high == 1:
        return x
    # The sum may round up to the bound that is not to be reached.
    below = np.nextafter(np.float32(high), np.float32(low))
    return tf.minimum(low + (high - low) * x, below)


def integers(shape: Sequence[int], key: tf.Tensor, high: int | tf.Tensor) -> tf.Tensor:
    """int32 ``shape`` in [0, high), for ``high`` far below 2^23."""
    scaled = uniform(shape, key) * tf.cast(high, tf.float32)
    return tf.minimum(tf.cast(scaled, tf.int32), high - 1)  # products may round up


def bernoulli(
    shape: Sequence[int], key: tf.Tensor, probability: float | tf.Tensor
) -> tf.Tensor:
    """bool ``shape``, true with a probability."""
    return uniform(shape, key) < probability


def normal(shape: Sequence[int], key: tf.Tensor) -> tf.Tensor:
    """f32 ``shape``, standard normal: the inverse of its CDF at 2^24 even steps."""
    bits = tf.cast(_shifted(words(shape, key), 8), tf.int32)
    middle = 2 * bits + 1 - 2**24  # odd, exact in f32, as often below 0 as above
    x = tf.cast(middle, tf.float32) * 2.0**-24
    # The lower half only: some kernels of erfinv lose all digits near 1.
    return -math.sqrt(2) * tf.sign(x) * tf.math.erfinv(-tf.abs(x))


def words(shape: Sequence[int], key: tf.Tensor) -> tf.Tensor:
    """uint32 ``shape``, in order: those of a longer shape begin with the same ones.

    Args:
      shape: static.
      key: int32 ``[2]``.
    """
    size = math.prod(shape)
    counters = np.arange((size + 1) // 2, dtype=np.uint32)
    blocks = counters, np.zeros_like(counters)
    pairs = threefry(tf.unstack(tf.cast(key, tf.uint32)), blocks)
    return tf.reshape(tf.reshape(tf.stack(pairs, -1), [-1])[:size], shape)


def threefry(key: Sequence, counter: Sequence) -> tuple:
    """Two uint32 words for a key and a counter of two words each, elementwise.

    Of tensors, or of NumPy arrays.
    """
    keys = (*key, key[0] ^ key[1] ^ np.uint32(_PARITY))
    x, y = keys[0] + counter[0], keys[1] + counter[1]
    # Made once: operations that Python makes one by one are what tracing takes.
    constant = functools.partial(tf.constant, dtype=tf.uint32)
    number = functools.cache(np.uint32 if isinstance(y, np.ndarray) else constant)
    for group in range(_ROUNDS // 4):
        for rotation in _ROTATIONS[group % 2]:
            x = x + y
            y = _rotate(y, number(rotation), number(32 - rotation)) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def _rotate(x: tf.Tensor | np.ndarray, left: Any, right: Any) -> tf.Tensor | np.ndarray:
    if isinstance(x, np.ndarray):
        return x << left | x >> right
    return tf.bitwise.left_shift(x, left) | tf.bitwise.right_shift(x, right)


def _shifted(x: tf.Tensor, by: int) -> tf.Tensor:
    return tf.bitwise.right_shift(x, np.uint32(by))
