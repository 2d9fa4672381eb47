"""What is measured of a trajectory, whatever learns from it."""

from __future__ import annotations

import gymnasium
import tensorflow as tf

from tfagents_batch import nest, spaces
from tfagents_batch.interfaces import Metrics, Source
from tfagents_batch.ops import masked
from tfagents_batch.types import Trajectory


def collected(source: Source, trajectory: Trajectory) -> Metrics:
    """What is measured of a trajectory, in the program in which its source made it.

    Its episodes, what the source counts, and what only the graph can count of
    environments that are tensors and have no counters of their own.
    """
    found = source.metrics() if hasattr(source, "metrics") else {}
    env = getattr(source, "env", None)
    if env is not None and not hasattr(env, "metrics"):
        fraction = clipped_fraction(trajectory, env.spec.action_space)
        found = found | {"env/action_clipped_fraction": fraction}
    return found | episodes(trajectory)


def episodes(trajectory: Trajectory) -> Metrics:
    """Sums over the episodes that ended in a trajectory, and what was collected.

    Returns:
      ``episode/count``, ``episode/return_sum``, ``episode/length_sum``, and
      ``env/masked``, the share of transitions that do not count.
    """
    steps = tf.nest.map_structure(lambda x: x[1:], trajectory.steps)
    ended = steps.last & steps.valid
    length = tf.cast(steps.info["episode_length"], tf.float32)
    return {
        "episode/count": tf.reduce_sum(tf.cast(ended, tf.float32)),
        "episode/return_sum": masked.sum(steps.info["episode_return"], ended),
        "episode/length_sum": masked.sum(length, ended),
        "env/masked": 1 - tf.reduce_mean(tf.cast(trajectory.mask, tf.float32)),
    }


def clipped_fraction(trajectory: Trajectory, space: gymnasium.Space) -> tf.Tensor:
    """f32 ``[]``: share of the numbers of Box actions that lay outside their bounds."""
    clipped, total = tf.zeros([]), tf.zeros([])
    leaves = spaces.leaves(space)
    for x, leaf in zip(nest.flatten(trajectory.action), leaves, strict=True):
        if not isinstance(leaf.space, gymnasium.spaces.Box):
            continue
        x = tf.cast(x, tf.float32)
        low, high = leaf.space.low, leaf.space.high
        low, high = (tf.constant(bound, tf.float32) for bound in (low, high))
        outside = tf.cast((x < low) | (x > high), tf.float32)
        rows = tf.reshape(outside, [*trajectory.mask.shape, -1])
        clipped += masked.sum(tf.reduce_sum(rows, -1), trajectory.mask)
        counted = tf.reduce_sum(tf.cast(trajectory.mask, tf.float32))
        total += counted * rows.shape[-1]
    return tf.math.divide_no_nan(clipped, total)
