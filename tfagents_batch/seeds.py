"""Stateless randomness: every draw is keyed by (run seed, global step, purpose).

``iteration_seed`` folds the first two on the host, ``key`` folds the purpose in the
graph. Draws name ``alg=ALGORITHM``: only then compiled and uncompiled programs
agree, and stateful random ops would ignore the seed under XLA.
"""

from __future__ import annotations

import zlib

import numpy as np
import tensorflow as tf

ALGORITHM = "philox"


def iteration_seed(run_seed: int, step: int) -> int:
    """Seed of the iteration that starts at ``step``: an int in ``[0, 2**31)``."""
    words = np.random.SeedSequence(run_seed, spawn_key=(step,)).generate_state(1)
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
    """f32 ``shape`` in [0, 1)."""
    return tf.random.stateless_uniform(shape, key, alg=ALGORITHM)


def normal(shape, key: tf.Tensor) -> tf.Tensor:
    """f32 ``shape``, standard normal."""
    return tf.random.stateless_normal(shape, key, alg=ALGORITHM)


def permutation(size: int, key: tf.Tensor) -> tf.Tensor:
    """int32 ``[size]``: a random order. (``stateless_shuffle`` has no XLA kernel.)"""
    return tf.argsort(uniform([size], key))
