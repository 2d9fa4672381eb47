"""Metrics of collected trajectories, which do not depend on the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import nest, spaces
from tfagents_batch.interfaces import Env
from tfagents_batch.metrics import NEWEST, Max, Mean, Median, Metrics, Min, Sum
from tfagents_batch.ops import masked
from tfagents_batch.types import Trajectory


def of_trajectory(
    trajectory: Trajectory, env: Env, info: Sequence[str] = ()
) -> Metrics:
    """Return metrics of the episodes that ended, and of Box actions.

    TensorFlow environments have no counters, so their clipped actions are counted here.
    Columns of ``info`` are reported, see ``episode_info_metrics``.
    """
    metrics = episodes(trajectory) | episode_info_metrics(trajectory, info)
    if not hasattr(env, "metrics") and spaces.has_box(env.spec.action_space):
        fraction = clipped_fraction(trajectory, env.spec.action_space)
        metrics["env/action_clipped_fraction"] = fraction
    return metrics


def episodes(trajectory: Trajectory) -> Metrics:
    """Return metrics of the episodes that ended in a trajectory.

    They are ``episode/count`` and ``env/masked``, the share of masked transitions; and
    of return and length ``episode/return_mean``, ``.._min``, ``.._max``, ``.._median``.
    """
    steps = tf.nest.map_structure(lambda x: x[1:], trajectory.steps)
    ended = steps.last & steps.valid
    count = tf.reduce_sum(tf.cast(ended, tf.int32))
    metrics = {
        "episode/count": Sum(count),
        "env/masked": 1 - tf.reduce_mean(tf.cast(trajectory.mask, tf.float32)),
    }
    newest = _newest(ended)
    for name in ("return", "length"):
        x = tf.cast(steps.info[f"episode_{name}"], tf.float32)
        metrics |= {
            f"episode/{name}_mean": Mean(masked.sum(x, ended), count),
            f"episode/{name}_min": Min(tf.reduce_min(masked.safe(x, ended, np.inf))),
            f"episode/{name}_max": Max(tf.reduce_max(masked.safe(x, ended, -np.inf))),
            f"episode/{name}_median": Median(newest(x)),
        }
    return metrics


def episode_info_metrics(trajectory: Trajectory, info: Sequence[str]) -> Metrics:
    """Return means of info values in the last step of the episodes that ended.

    They are ``episode/<name>_mean`` over the episodes with a value, of f32 columns of
    ``TimeStep.info``, NaN where an info has none.
    """
    steps = trajectory.steps
    ended = (steps.last & steps.valid)[1:]
    metrics = {}
    for name in info:
        x = tf.cast(steps.info[name][1:], tf.float32)
        present = ended & tf.math.is_finite(x)
        count = tf.reduce_sum(tf.cast(present, tf.int32))
        metrics[f"episode/{name}_mean"] = Mean(masked.sum(x, present), count)
    return metrics


def _newest(ended: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a function that selects the values of the newest ended episodes, ``[n]``.

    ``ended`` is bool ``[T, B]``. A top-k of the positions is used because XLA sorts and
    scans slowly on a CPU.
    """
    flat = tf.reshape(ended, [-1])
    size = ended.shape.num_elements()
    places = tf.where(flat, tf.range(size, dtype=tf.float32), -1.0)
    places, index = tf.math.top_k(places, min(NEWEST, size))
    return lambda x: tf.where(
        places >= 0, tf.gather(tf.reshape(x, [-1]), index), np.nan
    )


def clipped_fraction(trajectory: Trajectory, space: gymnasium.Space) -> tf.Tensor:
    """Return the share of numbers in Box actions that are out of bounds, f32 ``[]``."""
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
