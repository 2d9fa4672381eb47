"""Metrics of collected trajectories, which do not depend on the algorithm."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import nest, spaces
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import COUNT, SUM, Env, Metrics
from tfagents_batch.ops import masked
from tfagents_batch.types import Collected, Trajectory

NEWEST = 128  # at most this many episodes of a trajectory are reported one by one
# Vectors with one number per episode, padded with NaN, see ``episodes``.
EACH = ("episode/returns", "episode/lengths")
_SUMS = (SUM, COUNT, "_sum")  # suffixes of metrics that are sums already


def collected(
    trajectory: Trajectory,
    ok: tf.Tensor,
    env: Env,
    info: Sequence[str] = (),
    counters: Metrics | None = None,
) -> Collected:
    """Return what an on-policy source hands on: one update by the whole trajectory.

    They are metrics of the episodes that ended, and counters of the source. TensorFlow
    environments have no counters, so their clipped actions are counted here.

    Args:
      trajectory: ``[T, B]``.
      ok: bool ``[]``, whether it may be learned from.
      env: environment that was stepped.
      info: columns of ``TimeStep.info`` to report, see ``episode_info_metrics``.
      counters: further metrics of the source.
    """
    metrics = dict(counters or {})
    if not hasattr(env, "metrics"):
        fraction = clipped_fraction(trajectory, env.spec.action_space)
        metrics["env/action_clipped_fraction"] = fraction
    metrics |= episodes(trajectory) | episode_info_metrics(trajectory, info)
    steps = tf.reduce_sum(tf.cast(trajectory.mask, tf.int64))
    updates = tf.cast(ok, tf.int32)
    return Collected(tf.where(ok, steps, 0), ok, updates, metrics, trajectory)


def episodes(trajectory: Trajectory) -> Metrics:
    """Return metrics of the episodes that ended in a trajectory.

    Returns:
      ``episode/count`` and ``env/masked``, the share of masked transitions. For return
      and length: ``episode/return_sum``, ``.._min`` and ``.._max`` (infinite if no
      episode ended), and ``episode/returns`` of the newest episodes, f32 ``[n]``.
    """
    steps = tf.nest.map_structure(lambda x: x[1:], trajectory.steps)
    ended = steps.last & steps.valid
    found = {
        "episode/count": tf.reduce_sum(tf.cast(ended, tf.float32)),
        "env/masked": 1 - tf.reduce_mean(tf.cast(trajectory.mask, tf.float32)),
    }
    newest = _newest(ended)
    for name in ("return", "length"):
        x = tf.cast(steps.info[f"episode_{name}"], tf.float32)
        found |= {
            f"episode/{name}_sum": masked.sum(x, ended),
            f"episode/{name}_min": tf.reduce_min(masked.safe(x, ended, np.inf)),
            f"episode/{name}_max": tf.reduce_max(masked.safe(x, ended, -np.inf)),
            f"episode/{name}s": newest(x),
        }
    return found


def episode_info_metrics(trajectory: Trajectory, info: Sequence[str]) -> Metrics:
    """Return sums of info values in the last step of the episodes that ended.

    Args:
      info: f32 columns of ``TimeStep.info``, NaN where an info has no value.

    Returns:
      ``episode/<name>_mean/sum`` over the episodes with a value, and their ``/count``.
    """
    steps = trajectory.steps
    ended = (steps.last & steps.valid)[1:]
    found = {}
    for name in info:
        x = tf.cast(steps.info[name][1:], tf.float32)
        present = ended & tf.math.is_finite(x)
        mean = f"episode/{name}_mean"
        found[mean + SUM] = masked.sum(x, present)
        found[mean + COUNT] = tf.reduce_sum(tf.cast(present, tf.float32))
    return found


def start(like: Metrics) -> Metrics:
    """Return the totals of ``merge`` before the first collect.

    Args:
      like: metrics of a collect, or tensors like them.
    """

    def first(name, x):
        if name in EACH:
            return tf.fill([NEWEST], tf.constant(np.nan, x.dtype))
        value = {tf.minimum: np.inf, tf.maximum: -np.inf}.get(_rule(name), 0)
        # Wide, so that a sum does not depend on how collects are grouped into calls.
        dtype = x.dtype if x.shape.rank or value else tf.float64
        return tf.fill(x.shape, tf.constant(value, dtype))

    return {name: first(name, x) for name, x in like.items()}


def merge(totals: Metrics, new: Metrics) -> Metrics:
    """Join the metrics of several collects.

    Sums and counts are added, of extremes the larger or smaller one is taken, and the
    newest ``NEWEST`` episodes are listed. All other scalars are added too, see
    ``finish``; of other vectors the newest one is taken.
    """

    def merged(name, total, x):
        if name in EACH:
            return _append(total, x)
        return x if x.shape.rank else _rule(name)(total, tf.cast(x, total.dtype))

    return {name: merged(name, totals[name], x) for name, x in new.items()}


def finish(totals: Metrics, collects: tf.Tensor) -> Metrics:
    """Return the sums of means with their counts, and the other totals as they are.

    Args:
      totals: result of ``merge``.
      collects: int32 ``[]``, number of collects.
    """
    found = {}
    for name, x in totals.items():
        if x.shape.rank or name.endswith(_SUMS) or _rule(name) is not tf.add:
            found[name] = x
        else:
            found |= {name + SUM: x, name + COUNT: collects}
    return found


def _rule(name: str) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Return the function that joins two values of a scalar."""
    if name.startswith("episode/"):
        return {"_min": tf.minimum, "_max": tf.maximum}.get(name[-4:], tf.add)
    return tf.add


def _append(total: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """Put the numbers at the start of ``new`` before those of ``total``: same size."""
    count = tf.reduce_sum(tf.cast(~tf.math.is_nan(new), tf.int32))
    place = tf.range(total.shape[0])
    both = tf.concat([new, total], 0)
    return tf.gather(both, tf.where(place < count, place, new.shape[0] + place - count))


def check_info(names: Sequence[str]) -> None:
    """Check that info names can be logged.

    Raises:
      UserError: if a name is invalid.
    """
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[^/\s]+", name):
            raise UserError(
                f"log_info has {name!r}; expected keys of the environments' infos, "
                "without spaces and slashes"
            )
        if name in ("return", "length"):
            raise UserError(f"log_info has {name!r}, which is always logged; remove it")


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
