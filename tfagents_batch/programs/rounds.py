"""Graph of a program's call: rounds of collecting and updating, and its errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import metrics, nest, seeds
from tfagents_batch.errors import UserError
from tfagents_batch.experience import Source, Stores
from tfagents_batch.graph import arrays
from tfagents_batch.graph.function import single_call
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.metrics import UPDATES, Mean, Metrics, Result
from tfagents_batch.types import Collected, Trajectory, Updated


class Round(NamedTuple):
    """Result of one round.

    Attributes:
      ok: bool ``[]``, false if nothing may be learned from what was collected.
      updates: int32 ``[]``, updates that were made.
      learned, measured: metrics of the updates, summed, and of what was collected.
    """

    ok: tf.Tensor
    updates: tf.Tensor
    learned: Metrics
    measured: Metrics


def call(
    source: Source, algorithm: Algorithm, update: Any, step: tf.Variable
) -> Callable[..., Result]:
    """Return the function of a call on one device, see ``program.Program``.

    Args:
      source, algorithm: as in ``interfaces``.
      update: the algorithm's update, from ``make_update``.
      step: i64 ``[]``, progress of the run.

    Returns:
      A function of the run's seed (int32 ``[]``), ``until`` (i64 ``[]``) and ``rounds``
      (int32 ``[]``). It returns a ``Result``.
    """

    def one(seed) -> Round:
        before = step.read_value()
        now = seeds.iteration_seed(seed, before)
        collected = source.collect(now, before)
        collected, learned = learn(source, algorithm, update, collected, now, before)
        step.assign_add(collected.steps)
        return Round(collected.ok, *learned, collected.metrics)

    traced = tf.function(one, autograph=False)

    def iterate(seed, until, rounds):
        known = traced.get_concrete_function(seed).structured_outputs

        def body(index, ok, count, sums, totals):
            found = traced(seed)
            sums = metrics.merge(sums, found.learned, found.updates > 0)
            totals = metrics.merge(totals, found.measured)
            return index + 1, found.ok, count + found.updates, sums, totals

        def more(index, ok, *_):
            # At least one: a resumed run may have passed ``until`` already.
            return (index < rounds) & ok & ((index < 1) | (step.read_value() < until))

        zero = arrays.zeros([], tf.int32)
        totals = [metrics.start(x, wide=True) for x in (known.learned, known.measured)]
        index, _, count, sums, totals = tf.while_loop(
            more,
            body,
            (zero, tf.constant(True), zero, *totals),
            parallel_iterations=1,
            name="rounds",
        )
        learned = of_updates(sums, count, index) | histograms(algorithm)
        return Result(index, count, learned, metrics.finish(totals, index))

    return iterate


def histograms(algorithm: Algorithm) -> Metrics:
    """Return the vectors that an algorithm logs at the end of a call, if any."""
    read = getattr(algorithm.learner, "histograms", dict)
    return read()


def make_update(algorithm: Algorithm, compiled: bool) -> Any:
    """Return the algorithm's update as a function that several programs may call."""
    body = single_call(algorithm.update) if compiled else algorithm.update
    return tf.function(body, jit_compile=compiled, autograph=False)


def learn(
    source: Source,
    algorithm: Algorithm,
    update: Any,
    collected: Collected,
    seed: tf.Tensor,
    step: tf.Tensor,
) -> tuple[Collected, tuple[tf.Tensor, Metrics]]:
    """Store what was collected, and make the updates that are due.

    Args:
      source, algorithm, update: as for ``call``.
      collected: from the source.
      seed: int32 ``[]``, of the round.
      step: i64 ``[]``, before the round.

    Returns:
      What was stored; the number of updates, int32 ``[]``, and sums of their metrics.
    """
    if isinstance(source, Stores):
        collected = source.store(collected, step)
    count = tf.where(collected.ok, collected.updates, 0)

    def sample(seed):
        return source.sample(collected, seed, step)

    draw = tf.function(sample, autograph=False)
    sampled = draw.get_concrete_function(seed).structured_outputs
    known = _trace(update, sampled, seed, step)

    def body(index, sums):
        mine = seeds.update_seed(seed, index)
        updated = update(draw(mine), mine, step)
        source.feedback(updated.priority)
        return index + 1, metrics.merge(sums, updated.metrics)

    zero = arrays.zeros([], tf.int32)
    _, sums = tf.while_loop(
        lambda index, _: index < count,
        body,
        (zero, metrics.start(known.metrics)),
        parallel_iterations=1,
        name="updates",
    )
    algorithm.policy.version.assign_add(tf.cast(count, tf.int64))
    return collected, (count, sums)


def outline(update: Any, trajectory: Trajectory) -> Updated:
    """Return what an update of such a trajectory returns, as symbolic tensors."""
    seed, step = tf.constant(0, tf.int32), tf.constant(0, tf.int64)
    return _trace(update, trajectory, seed, step)


def of_updates(totals: Metrics, count: tf.Tensor, rounds: tf.Tensor) -> Metrics:
    """Return metrics of updates, in which each summed scalar is a mean.

    Args:
      totals: merged metrics of the updates.
      count: number of updates.
      rounds: number of rounds; ``grad/updates`` is a mean over these.
    """
    found = metrics.finish(totals, count)
    if UPDATES in totals:
        found[UPDATES] = Mean(totals[UPDATES], rounds)
    return found


def _trace(update: Any, trajectory: Trajectory, seed, step) -> Updated:
    """Trace an update for such arguments; return the tensors of its own graph."""
    arguments = nest.specs_of((trajectory, seed, step))
    return update.get_concrete_function(*arguments).structured_outputs


def refused_operation(error: BaseException) -> str | None:
    """Return the operation that XLA has no kernel for; None for other errors."""
    kinds = tf.errors.InvalidArgumentError, tf.errors.UnimplementedError
    if not isinstance(error, kinds):
        return None
    text = str(error)
    found = re.search(r"No registered '(\w+)' OpKernel for XLA", text)
    found = found or re.search(r"unsupported operations.*?: (\w+)", text, re.S)
    return found[1] if found else None


def refused(error: BaseException) -> str:
    """Return the operation that XLA has no kernel for; raise any other error.

    Raises:
      UserError: if a program of a GPU cannot step environments.
    """
    if name := refused_operation(error):
        return name
    if failure := gpu_error(error):
        raise failure from None
    raise error


def gpu_error(error: BaseException) -> UserError | None:
    """Return the error of a GPU's program that cannot step environments, if it is."""
    found = re.search(r"tfab:cuda:\d+: ([^\n]*)", str(error))
    if not found:
        return None
    return UserError(f"{found[1]}; use --compile=update, which steps them from the CPU")


def compile_error(setting: str, mode: str, name: str, instead: str) -> UserError:
    """Return the error that names the operation, and what to do."""
    return UserError(
        f"{setting}={mode}: XLA cannot compile {name}; use {instead}, or another "
        "operation in the network"
    )
