"""Stateless randomness: every draw is keyed by (run seed, global step, purpose).

``iteration_seed`` folds the first two on the host, ``key`` folds the purpose in the
graph. Draws are integers with ``alg=ALGORITHM``: only so compiled and uncompiled
programs agree, and stateful random ops would ignore the seed under XLA.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
import tensorflow as tf

ALGORITHM = "philox"


def iteration_seed(run_seed: int, step: int, stream: str = "train") -> int:
    """Seed of what starts at ``step``: an int in ``[0, 2**31)``.

    Args:
      run_seed: the run's.
      step: environment steps done.
      stream: what for; streams are independent of each other.
    """
    tag = zlib.crc32(stream.encode())
    words = np.random.SeedSequence(run_seed, spawn_key=(tag, step)).generate_state(1)
    return int(words[0] >> 1)


def key(seed: int | tf.Tensor, purpose: str) -> tf.Tensor:
    """int32 ``[2]`` seed for one stateless op; one purpose, one stream of numbers."""
    tag = zlib.crc32(purpose.encode()) >> 1
    return tf.stack([tf.cast(seed, tf.int32), tf.constant(tag, tf.int32)])


def fold(key: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """int32 ``[2]`` key of draw number ``index`` (int32 scalar) of a stream.

    (``tf.random.fold_in`` gives other keys under XLA, even with philox: measured.)
    """
    golden = tf.constant(
        0x9E3779B1 - 2**32, tf.int32
    )  # odd: distinct for 2**32 indices
    return key + tf.stack([tf.cast(index, tf.int32) * golden, 0])


def uniform(shape, key: tf.Tensor) -> tf.Tensor:
    """f32 ``shape`` in [0, 1), multiples of 2^-23."""
    bits = tf.bitwise.right_shift(words(shape, key), 9)
    return tf.cast(bits, tf.float32) * 2.0**-23


def normal(shape, key: tf.Tensor) -> tf.Tensor:
    """f32 ``shape``, standard normal: the inverse of its CDF at 2^24 even steps."""
    bits = tf.cast(tf.bitwise.right_shift(words(shape, key), 8), tf.int32)
    middle = 2 * bits + 1 - 2**24  # odd, exact in f32, as often below 0 as above
    x = tf.cast(middle, tf.float32) * 2.0**-24
    # The lower half only: some kernels of erfinv lose all digits near 1.
    return -math.sqrt(2) * tf.sign(x) * tf.math.erfinv(-tf.abs(x))


def words(shape, key: tf.Tensor) -> tf.Tensor:
    """uint32 ``shape``. From these floats are made above, not by TensorFlow: XLA
    takes other bits of the same words, so its draws would differ (measured)."""
    return tf.random.stateless_uniform(
        shape, key, minval=None, maxval=None, dtype=tf.uint32, alg=ALGORITHM
    )
