"""Prioritized sampling of stored transitions (Schaul et al. 2016, arXiv:1511.05952)."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.graph.inputs import Inputs
from tfagents_batch.graph.state import NestVariables
from tfagents_batch.metrics import Metrics
from tfagents_batch.sources.replay_layout import RingLayout
from tfagents_batch.sources.sampler import DrawnTransitions, Ring

_WIDTH = 16  # children of a node of the sum tree
_BELOW_1 = 1 - 2.0**-30


class Prioritized(tf.Module):
    """Sampler that draws a transition in proportion to its weight.

    The weight is (abs(TD) + epsilon)^alpha after the first update from a transition,
    before that the largest weight so far.

    Args:
      config: settings with ``alpha``, ``beta`` and ``epsilon``; UserError if the length
        of beta's schedule is not known.
      sizes: sizes of the storage.
      batch_size: N, transitions of a sample.
    """

    def __init__(self, config: Any, sizes: RingLayout, batch_size: int):
        super().__init__()
        self._inputs, self._batch_size = Inputs(config), batch_size
        self._rows, self._leaves = sizes.rows, sizes.batch * sizes.rows
        self._tree = SumTree(self._leaves)
        self._largest = tf.Variable(tf.constant(1.0), trainable=False)
        # Leaves of the newest sample; where nothing was drawn, the one behind the last.
        nothing = tf.fill([batch_size], self._leaves)
        self._drawn = NestVariables(nothing)
        self._learn = tf.function(self._set, jit_compile=True, autograph=False)

    def draw(self, ring: Ring, seed: tf.Tensor, step: tf.Tensor) -> DrawnTransitions:
        """Draw N transitions, see ``sampler.Sampler``."""
        part = strata(self._batch_size, seeds.key(seed, "replay"))
        leaf = self._tree.find(part)
        weight = self._tree.read(leaf)
        valid = weight > 0
        leaf = tf.where(valid, leaf, self._leaves)
        self._drawn.assign(leaf)
        beta = self._inputs.beta(step)
        weight = importance(weight, self._tree.total(), ring.size, beta, valid)
        env = tf.minimum(leaf // self._rows, ring.sizes.batch - 1)
        return DrawnTransitions(env, leaf % self._rows, valid, weight)

    def change(self, leaves: tf.Tensor, entered: tf.Tensor) -> None:
        """Give transitions that entered the largest weight, and the others none."""
        weight = tf.where(entered, self._largest.read_value(), 0.0)
        self._tree.write(leaves, weight)

    def feedback(self, priority: tf.Tensor, used: tf.Tensor | None = None) -> None:
        """Set the weights of the newest sample from its absolute TD errors, f32 [N]."""
        if used is not None:
            self._drawn.assign(tf.where(used, self._drawn.read(), self._leaves))
        self._learn(priority)

    def metrics(self, size: tf.Tensor) -> Metrics:
        """Return the mean and the maximum of (abs(TD) + epsilon)^alpha."""
        return {
            "replay/priority_mean": tf.math.divide_no_nan(self._tree.total(), size),
            "replay/priority_max": self._largest.read_value(),
        }

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return the weights and their largest so far."""
        tree = nest.prefixed("tree", self._tree.named_variables())
        return {"largest": self._largest, **tree}

    def _set(self, priority: tf.Tensor) -> None:
        inputs, drawn = self._inputs, self._drawn.read()
        weight = tf.pow(tf.abs(priority) + inputs.epsilon, inputs.alpha)
        largest = self._largest.read_value()
        # A number that is not finite would stay in all sums above it.
        weight = tf.where(tf.math.is_finite(weight), weight, largest)
        weight = tf.where(drawn < self._leaves, weight, 0.0)
        self._largest.assign(tf.maximum(largest, tf.reduce_max(weight)))
        self._tree.write(drawn, weight)


def strata(count: int, key: tf.Tensor) -> tf.Tensor:
    """Draw f64 ``[count]``, number i uniformly from [i, i + 1) / count."""
    bits = tf.cast(tf.cast(seeds.words([count], key), tf.int64), tf.float64)
    return (tf.range(count, dtype=tf.float64) + bits * 2.0**-32) / count


def importance(
    weight: tf.Tensor,
    total: tf.Tensor,
    size: tf.Tensor,
    beta: tf.Tensor,
    valid: tf.Tensor,
) -> tf.Tensor:
    """Return the importance weights (size P)^-beta, divided by their maximum.

    Schaul et al. 2016, section 3.4, with P = weight / total.

    Args:
      weight: f32 ``[N]``, weights of the drawn leaves.
      total: f32 ``[]``, sum of all weights.
      size: int32 ``[]``, number of leaves with a weight.
      beta: f32 ``[]``.
      valid: bool ``[N]``; the result is 0 where it is false.
    """
    scaled = tf.where(valid, weight / total * tf.cast(size, tf.float32), 1.0)
    weights = tf.where(valid, tf.pow(scaled, -beta), 0.0)
    return tf.math.divide_no_nan(weights, tf.reduce_max(weights))


class SumTree(tf.Module):
    """Non-negative f32 weights of ``size`` leaves, drawn in proportion to their size.

    Each level is a variable ``[n]``, whose groups of ``_WIDTH`` entries are children
    of an entry of the next level. Sums are recomputed from the children, so that
    rounding errors do not accumulate. Narrow nodes were the fastest: the prefix sums of
    a node take ``_WIDTH``^2 additions. Leaf ``size`` exists too, for writes that must
    change nothing: give it weight 0.
    """

    def __init__(self, size: int):
        super().__init__()
        width = _padded(size + 1)
        self._levels = [_level(width)]
        while width > _WIDTH:
            width = _padded(width // _WIDTH)
            self._levels.append(_level(width))

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return ``{level: variable}``, leaves first."""
        return {f"level_{i}": level for i, level in enumerate(self._levels)}

    def total(self) -> tf.Tensor:
        """Return the sum of all weights, f32 ``[]``."""
        return _prefix(self._levels[-1][tf.newaxis])[0, -1]

    def read(self, index: tf.Tensor) -> tf.Tensor:
        """Return the f32 ``[N]`` weights of leaves."""
        return tf.gather(self._levels[0], index)

    def write(self, index: tf.Tensor, weight: tf.Tensor) -> None:
        """Set weights f32 ``[N]``; of equal indices the last one counts."""
        self._levels[0].scatter_update(tf.IndexedSlices(weight, index))
        for below, level in zip(self._levels[:-1], self._levels[1:], strict=True):
            index //= _WIDTH
            total = tf.reduce_sum(_children(below, index), -1)
            level.scatter_update(tf.IndexedSlices(total, index))

    def find(self, part: tf.Tensor) -> tf.Tensor:
        """Return the leaves at parts of the total weight, int32 ``[N]``.

        Parts are f64 ``[N]`` in [0, 1): leaf i is found for a part of [0, 1) as large
        as its part of the total.
        """
        rest = part * tf.cast(self.total(), tf.float64)
        index = tf.zeros(part.shape, tf.int32)
        for level in reversed(self._levels):
            prefix = tf.cast(_prefix(_children(level, index)), tf.float64)
            # Rounding must not lead behind the last child with a weight.
            rest = tf.minimum(rest, prefix[:, -1] * _BELOW_1)
            below = prefix <= rest[:, tf.newaxis]
            child = tf.reduce_sum(tf.cast(below, tf.int32), -1)
            index = index * _WIDTH + tf.minimum(child, _WIDTH - 1)  # if all are 0
            rest -= tf.reduce_max(tf.where(below, prefix, 0.0), -1)
        return index


def _padded(size: int) -> int:
    return -(-size // _WIDTH) * _WIDTH


def _level(width: int) -> tf.Variable:
    return tf.Variable(tf.zeros([width]), trainable=False)


def _children(level: tf.Variable, index: tf.Tensor) -> tf.Tensor:
    """Return the f32 ``[N, _WIDTH]`` children of nodes."""
    return tf.gather(tf.reshape(level, [-1, _WIDTH]), index)


def _prefix(x: tf.Tensor) -> tf.Tensor:
    """Return f32 ``[N, n]`` sums of ``[N, n]`` up to each entry, that one included."""
    before = np.tri(nest.static_size(x, -1), dtype=np.float32)
    return tf.reduce_sum(x[:, tf.newaxis] * before, -1)
