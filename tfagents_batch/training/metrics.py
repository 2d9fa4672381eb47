"""What is measured of a trajectory, whatever learns from it."""

from __future__ import annotations

import tensorflow as tf

from tfagents_batch.interfaces import Metrics, Source
from tfagents_batch.ops import masked
from tfagents_batch.types import Trajectory


def collected(source: Source, trajectory: Trajectory) -> Metrics:
    """What is measured of a trajectory, in the program in which its source made it."""
    own = source.metrics() if hasattr(source, "metrics") else {}
    return own | episodes(trajectory)


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
