"""Stateless random numbers: every draw is keyed by (run seed, global step, purpose).

``iteration_seed`` combines run seed and step on the host, ``key`` adds the purpose in
the graph. The generator is counter-based: Threefry-2x32 with 20 rounds (Salmon et al.,
2011, "Parallel Random Numbers: As Easy as 1, 2, 3"), written in elementwise integer
ops. So eager code, graphs and XLA draw the same numbers, which TensorFlow's own ops do
not. Keys may have leading axes under ``tf.vectorized_map``, where TensorFlow's own
stateless ops would run one after the other.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch.tracing import has_run

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_ROUNDS = 20
_PARITY = 0x1BD11BDA
_GOLDEN = 0x9E3779B1  # odd, so that multiples are distinct for 2**32 indices


def iteration_seed(
    run_seed: int | tf.Tensor, step: int | tf.Tensor, stream: str = "train"
) -> int | tf.Tensor:
    """Return the seed of an iteration that starts at ``step``, in ``[0, 2**31)``.

    Args:
      run_seed: seed of the run, below 2**31.
      step: number of environment steps so far.
      stream: purpose of the seed; streams are independent of each other.

    Returns:
      An int; for tensors (int32 and int64 ``[...]``) an int32 ``[...]`` tensor.
    """
    tag = np.uint32(zlib.crc32(stream.encode()))
    if tf.is_tensor(step):
        key = tf.cast(run_seed, tf.uint32), tf.fill(tf.shape(step), tag)
        counter = tf.cast(step, tf.uint32), tf.cast(step // 2**32, tf.uint32)
        return tf.cast(_shifted(threefry(key, counter)[0], 1), tf.int32)
    key = np.array([run_seed], np.uint32), np.array([tag])
    counter = (np.array([part], np.uint32) for part in (step % 2**32, step // 2**32))
    return int(threefry(key, tuple(counter))[0][0] >> 1)


def update_seed(seed: int | tf.Tensor, index: int | tf.Tensor) -> int | tf.Tensor:
    """Return the seed of update ``index`` of an iteration; update 0 has ``seed``."""
    if tf.is_tensor(seed) or tf.is_tensor(index):
        seed, index = (tf.cast(x, tf.uint32) for x in (seed, index))
        moved = seed + index * tf.constant(_GOLDEN, tf.uint32)
        return tf.cast(tf.bitwise.bitwise_and(moved, np.uint32(2**31 - 1)), tf.int32)
    return (seed + index * _GOLDEN) % 2**31


def key(seed: int | tf.Tensor, purpose: str) -> tf.Tensor:
    """Return the int32 ``[2]`` key of a purpose; keys give independent numbers."""
    tag = zlib.crc32(purpose.encode()) >> 1
    return tf.stack([tf.cast(seed, tf.int32), tf.constant(tag, tf.int32)])


def fold(key: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Return the int32 ``[..., 2]`` key of draw ``index`` (int32 ``[...]``)."""
    golden = np.int32(_GOLDEN - 2**32)
    step = tf.cast(index, tf.int32) * golden
    return key + tf.stack([step, tf.zeros_like(step)], -1)


def split(key: tf.Tensor, count: int = 2) -> list[tf.Tensor]:
    """Return ``count`` int32 ``[2]`` keys of independent streams."""
    return tf.unstack(tf.cast(words([count, 2], key), tf.int32))


def uniform(
    shape: Sequence[int], key: tf.Tensor, low: float = 0.0, high: float = 1.0
) -> tf.Tensor:
    """Draw f32 ``shape`` uniformly from [low, high), with a resolution of 2^-23."""
    bits = _shifted(words(shape, key), 9)
    x = tf.cast(bits, tf.float32) * 2.0**-23
    if low == 0 and high == 1:
        return x
    # Rounding could return the excluded upper bound.
    below = np.nextafter(np.float32(high), np.float32(low))
    return tf.minimum(low + (high - low) * x, below)


def integers(shape: Sequence[int], key: tf.Tensor, high: int | tf.Tensor) -> tf.Tensor:
    """Draw int32 ``shape`` from [0, high), for ``high`` far below 2^23."""
    scaled = uniform(shape, key) * tf.cast(high, tf.float32)
    return tf.minimum(tf.cast(scaled, tf.int32), high - 1)  # products may round up


def indices(count: int, key: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    """Draw int32 ``[count]`` uniformly from [0, high), for any positive int32.

    floor(x high / 2^64) for 64 random bits x, so probabilities differ by less than
    2^-32 of their size.
    """
    low, top = tf.unstack(tf.cast(words([2, count], key), tf.uint64))
    high = tf.cast(high, tf.uint64)
    shift = tf.constant(32, tf.uint64)
    carry = tf.bitwise.right_shift(low * high, shift)
    return tf.cast(tf.bitwise.right_shift(top * high + carry, shift), tf.int32)


def bernoulli(
    shape: Sequence[int], key: tf.Tensor, probability: float | tf.Tensor
) -> tf.Tensor:
    """Draw bool ``shape``, true with a probability."""
    return uniform(shape, key) < probability


def coins(shape: Sequence[int], key: tf.Tensor, probability: float) -> tf.Tensor:
    """Draw bool ``shape``, true with a probability, faster than ``bernoulli``.

    For dropout, which needs a number for each unit of each row in each update: a hash
    of the position with 2 rounds of multiplication (Wellons' "lowbias32") and the key
    mixed in between. Its bits pass simple tests only; everything else that is random
    uses ``bernoulli``.

    Args:
      shape: static.
      key: int32 ``[2]``; two keys of ``split`` are independent.
      probability: a number, resolved to 2^-24.
    """
    first, second = tf.unstack(tf.cast(key, tf.uint32))
    position, size = tf.zeros([], tf.uint32), 1
    for axis, count in reversed([*enumerate(shape)]):  # no array of all positions
        along = np.arange(count, dtype=np.uint32) * np.uint32(size)
        position += along.reshape([-1] + [1] * (len(shape) - axis - 1))
        size *= count
    x = tf.bitwise.bitwise_xor(position, first)
    x = tf.bitwise.bitwise_xor(x, _shifted(x, 16)) * np.uint32(0x7FEB352D) + second
    x = tf.bitwise.bitwise_xor(x, _shifted(x, 15)) * np.uint32(0x846CA68B)
    x = tf.bitwise.bitwise_xor(x, _shifted(x, 16))
    return tf.cast(_shifted(x, 8), tf.int32) < round(probability * 2**24)


def normal(shape: Sequence[int], key: tf.Tensor) -> tf.Tensor:
    """Draw f32 ``shape`` from the standard normal: its inverse CDF at 2^24 points."""
    bits = tf.cast(_shifted(words(shape, key), 8), tf.int32)
    middle = 2 * bits + 1 - 2**24  # odd, exact in f32, symmetric around 0
    x = tf.cast(middle, tf.float32) * 2.0**-24
    # Use the lower half only: some kernels of erfinv lose all digits near 1.
    return -math.sqrt(2) * tf.sign(x) * tf.math.erfinv(-tf.abs(x))


def words(shape: Sequence[int], key: tf.Tensor) -> tf.Tensor:
    """Return random uint32 ``shape``; a longer shape begins with the same numbers.

    Args:
      shape: static.
      key: int32 ``[2]``.
    """
    size = math.prod(shape)
    # A function would end the time in which TensorFlow's threads can be set.
    draw = _operation() if has_run() else _words
    found = draw(tf.cast(key, tf.int32), tf.range((size + 1) // 2))
    return tf.reshape(found[:size], shape)


def _words(key: tf.Tensor, counters: tf.Tensor) -> tf.Tensor:
    low = tf.cast(counters, tf.uint32)
    keys = tf.unstack(tf.cast(key, tf.uint32))
    pairs = threefry(keys, (low, tf.zeros_like(low)))
    return tf.reshape(tf.stack(pairs, -1), [-1])


@functools.cache
def _operation() -> Callable:
    """Return ``_words`` as one operation; a hundred would take long to trace."""
    specs = tf.TensorSpec([2], tf.int32), tf.TensorSpec([None], tf.int32)
    return tf.function(_words, specs, autograph=False).get_concrete_function()


def threefry(key: Sequence, counter: Sequence) -> tuple:
    """Return two uint32 words for a key and a counter of two words each.

    All operations are elementwise, on tensors or NumPy arrays.
    """
    keys = (*key, key[0] ^ key[1] ^ np.uint32(_PARITY))
    x, y = keys[0] + counter[0], keys[1] + counter[1]
    # Constants are created once because the number of ops determines tracing time.
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
