"""What is measured of a trajectory, whatever learns from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import nest, spaces
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Metrics, Source
from tfagents_batch.ops import masked
from tfagents_batch.types import Trajectory

NEWEST = 128  # episodes of a trajectory that are told one by one
# Vectors of one number an episode, NaN where there were fewer, see ``episodes``.
EACH = ("episode/returns", "episode/lengths")
SUM, COUNT = "/sum", "/count"  # of what infos say, see ``told``


def collected(
    source: Source, trajectory: Trajectory, info: Sequence[str] = ()
) -> Metrics:
    """What is measured of a trajectory, in the program in which its source made it.

    Its episodes, what the source counts, and what only the graph can count of
    environments that are tensors and have no counters of their own.

    Args:
      info: columns of ``TimeStep.info`` to be told, see ``told``.
    """
    found = source.metrics() if hasattr(source, "metrics") else {}
    env = getattr(source, "env", None)
    if env is not None and not hasattr(env, "metrics"):
        fraction = clipped_fraction(trajectory, env.spec.action_space)
        found = found | {"env/action_clipped_fraction": fraction}
    return found | episodes(trajectory) | told(trajectory, info)


def episodes(trajectory: Trajectory) -> Metrics:
    """Of the episodes that ended in a trajectory, and what was collected.

    Returns:
      ``episode/count``; of return and length ``episode/return_sum``, ``.._min`` and
      ``.._max``, infinite where no episode ended, and ``episode/returns`` of the newest
      ``NEWEST``, f32 ``[n]``; and ``env/masked``, the share of transitions that do not
      count.
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


def told(trajectory: Trajectory, info: Sequence[str]) -> Metrics:
    """What environments said of the episodes that ended, in their last step.

    Args:
      info: f32 columns of ``TimeStep.info``, NaN where nothing was said.

    Returns:
      ``episode/<name>/sum`` over the episodes that said it, and ``../count`` of these.
    """
    steps = trajectory.steps
    ended = (steps.last & steps.valid)[1:]
    found = {}
    for name in info:
        x = tf.cast(steps.info[name][1:], tf.float32)
        said = ended & tf.math.is_finite(x)
        found[f"episode/{name}{SUM}"] = masked.sum(x, said)
        found[f"episode/{name}{COUNT}"] = tf.reduce_sum(tf.cast(said, tf.float32))
    return found


def check_info(names: Sequence[str]) -> None:
    """Refuse names that cannot be told of.

    Raises:
      UserError: naming the first.
    """
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[^/\s]+", name):
            raise UserError(
                f"log_info has {name!r}; expected keys of the environments' infos, "
                "without blanks and slashes"
            )
        if name in ("return", "length"):
            raise UserError(f"log_info has {name!r}, which is logged of every episode")


def _newest(ended: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
    """What picks the newest entries where ``ended``, bool ``[T, B]``: ``[n]``.

    By the largest few places rather than by a sort or a scan of all, which XLA does
    slowly on a CPU.
    """
    flat = tf.reshape(ended, [-1])
    size = ended.shape.num_elements()
    places = tf.where(flat, tf.range(size, dtype=tf.float32), -1.0)
    places, index = tf.math.top_k(places, min(NEWEST, size))
    return lambda x: tf.where(
        places >= 0, tf.gather(tf.reshape(x, [-1]), index), np.nan
    )


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
