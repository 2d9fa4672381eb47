"""Graph of a program's call: rounds of collecting and updating in one loop."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.interfaces import (
    COUNT,
    MAX,
    SUM,
    Algorithm,
    Metrics,
    Source,
    Updated,
)
from tfagents_batch.ops import constants
from tfagents_batch.ops.single_call import single_call
from tfagents_batch.sources import metrics
from tfagents_batch.types import Collected, Trajectory

# Names in the result of a call, beside those of metrics.
ROUNDS = "rounds"
UPDATE = "update:"  # begins the names of the updates' metrics
_UPDATES = "grad/updates"


def call(source: Source, algorithm: Algorithm, update: Any, step: tf.Variable, device):
    """Return the function of a call, see ``interfaces.Program``.

    Args:
      source, algorithm: as in ``interfaces``.
      update: the algorithm's update, from ``make_update``.
      step: i64 ``[]``, environment steps of the run.
      device: TensorFlow's name of the device of updates.

    Returns:
      A function of the run's seed (int32 ``[]``), ``until`` (i64 ``[]``) and ``rounds``
      (int32 ``[]``). It returns the merged metrics of the call and ``ROUNDS``; the
      names of the updates' metrics begin with ``UPDATE``.
    """

    def one(seed):
        before = step.read_value()
        now = seeds.iteration_seed(seed, before)
        with tf.device("/CPU:0"):
            collected = source.collect(now, before)
        learned, count = _learn(
            source, algorithm, update, collected, now, before, device
        )
        step.assign_add(collected.steps)
        return collected.ok, count, learned, collected.metrics

    one = tf.function(one, autograph=False)

    def iterate(seed, until, rounds):
        _, _, learned, measured = one.get_concrete_function(seed).structured_outputs

        def body(index, ok, count, sums, totals):
            ok, updates, learned, measured = one(seed)
            sums = _add(sums, learned, updates)
            totals = metrics.merge(totals, measured)
            return index + 1, ok, count + updates, sums, totals

        def more(index, ok, *_):
            # At least one: a resumed run may have passed ``until`` already.
            return (index < rounds) & ok & ((index < 1) | (step.read_value() < until))

        zero = constants.zeros([], tf.int32)
        # Wide, so that a sum does not depend on how rounds are grouped into calls.
        sums = _start(learned, tf.float64)
        start = zero, tf.constant(True), zero, sums, metrics.start(measured)
        index, _, count, sums, totals = tf.while_loop(
            more, body, start, parallel_iterations=1
        )
        last = algorithm.histograms() if hasattr(algorithm, "histograms") else {}
        return {
            **of_updates(sums, count, index),
            **{UPDATE + name: x for name, x in last.items()},
            **metrics.finish(totals, index),
            ROUNDS: index,
        }

    return iterate


def make_update(algorithm: Algorithm, compiled: bool) -> Any:
    """Return the algorithm's update as a function that several programs may call."""

    def update(trajectory, seed, step):
        return algorithm.update(trajectory, seed, step)

    body = single_call(update) if compiled else update
    return tf.function(body, jit_compile=compiled, autograph=False)


def _trace(update: Any, trajectory: Trajectory, seed, step) -> Updated:
    """Trace an update for such arguments; return the tensors of its own graph."""
    arguments = nest.map(_spec, (trajectory, seed, step))
    return update.get_concrete_function(*arguments).structured_outputs


def _learn(
    source: Source,
    algorithm: Algorithm,
    update: Any,
    collected: Collected,
    seed: tf.Tensor,
    step: tf.Tensor,
    device: str,
) -> tuple[Metrics, tf.Tensor]:
    """Make the updates that are due; return sums of their metrics and their number."""
    count = tf.where(collected.ok, collected.updates, 0)

    def sample(seed):
        with tf.device("/CPU:0"):
            return source.sample(collected, seed, step)

    sample = tf.function(sample, autograph=False)
    sampled = sample.get_concrete_function(seed).structured_outputs
    known = _trace(update, sampled, seed, step)

    def body(index, sums):
        mine = seeds.update_seed(seed, index)
        trajectory = sample(mine)
        with tf.device(device):
            updated = update(trajectory, mine, step)
        source.feedback(updated.priority)
        return index + 1, _add(sums, updated.metrics, 1)

    zero = constants.zeros([], tf.int32)
    _, sums = tf.while_loop(
        lambda index, _: index < count,
        body,
        (zero, _start(known.metrics)),
        parallel_iterations=1,
    )
    algorithm.policy.version.assign_add(tf.cast(count, tf.int64))
    return sums, count


def _add(sums: Metrics, new: Metrics, count: int | tf.Tensor) -> Metrics:
    """Join scalars, and replace vectors if there was an update."""
    some = tf.constant(True) if isinstance(count, int) else count > 0

    def merged(name, old, x):
        if x.shape.rank:
            return tf.where(some, x, old)
        x = tf.cast(x, old.dtype)
        return tf.maximum(old, x) if name.endswith(MAX) else old + x

    return {name: merged(name, sums[name], x) for name, x in new.items()}


def outline(update: Any, trajectory: Trajectory) -> Updated:
    """Return what an update of such a trajectory returns, as symbolic tensors."""
    seed, step = tf.constant(0, tf.int32), tf.constant(0, tf.int64)
    return _trace(update, trajectory, seed, step)


def summary(
    algorithm: Algorithm, sums: Metrics, totals: Metrics, updates: int, collects: int
) -> dict[str, Any]:
    """Return the metrics of updates that were made one by one.

    Args:
      algorithm: for histograms of its variables.
      sums: of the updates' metrics.
      totals: from ``metrics.merge``.
      updates: number of updates, each a round.
      collects: number of collects.
    """
    count = tf.constant(updates)
    last = algorithm.histograms() if hasattr(algorithm, "histograms") else {}
    found = {
        **of_updates(sums, count, count),
        **{UPDATE + name: x for name, x in last.items()},
        **metrics.finish(totals, tf.constant(collects)),
        ROUNDS: count,
    }
    return split(found)[0]


def of_updates(sums: Metrics, count: tf.Tensor, rounds: tf.Tensor) -> Metrics:
    """Return metrics of updates, with the counts of those that are means.

    Args:
      sums: scalars, joined over the updates; vectors of the last one.
      count: number of updates.
      rounds: number of rounds; ``grad/updates`` is a mean over these.
    """
    found = {}
    for name, x in sums.items():
        if x.shape.rank or name.endswith((SUM, COUNT, MAX)):
            found[UPDATE + name] = x
        else:
            number = rounds if name == _UPDATES else count
            found |= {UPDATE + name + SUM: x, UPDATE + name + COUNT: number}
    return found


def split(found: Metrics) -> tuple[dict[str, Any], int]:
    """Split the result of a call into metrics and the number of rounds.

    Metrics of updates are left out if there was no update, except their number.
    """
    found = {name: x.numpy() for name, x in found.items()}
    number = UPDATE + _UPDATES
    updated = found.get(number + SUM, 1) > 0
    metrics = {
        name.removeprefix(UPDATE): x
        for name, x in found.items()
        if updated or not name.startswith(UPDATE) or name.startswith(number)
    }
    return metrics, int(metrics.pop(ROUNDS))


def _start(like: Metrics, scalars: tf.DType | None = None) -> Metrics:
    """Return the sums of ``_add`` before the first update.

    Args:
      like: metrics of an update.
      scalars: dtype of scalars; None for their own.
    """

    def kind(name, x):
        dtype = x.dtype if x.shape.rank or scalars is None else scalars
        return tuple(x.shape), dtype, not x.shape.rank and name.endswith(MAX)

    kinds = {name: kind(name, x) for name, x in like.items()}
    # One tensor of each kind, in the order of the metrics, so that names are equal in
    # every process.
    first = {
        (shape, dtype, largest): constants.zeros(shape, dtype)
        - (math.inf if largest else 0)
        for shape, dtype, largest in dict.fromkeys(kinds.values())
    }
    return {name: first[kind] for name, kind in kinds.items()}


def _spec(x: tf.Tensor) -> tf.TensorSpec:
    return tf.TensorSpec(x.shape, x.dtype)
