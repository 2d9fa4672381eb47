"""Graph of a program's call: rounds of collecting and updating, and its errors."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import metrics, nest, seeds
from tfagents_batch.errors import UserError
from tfagents_batch.experience import Source, Stores
from tfagents_batch.graph import arrays
from tfagents_batch.graph.function import program
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.metrics import UPDATES, Mean, Metrics, Result
from tfagents_batch.types import Collected, Trajectory, Updated


class Round(NamedTuple):
    """Result of one round."""

    ok: tf.Tensor | bool  # [], false if nothing may be learned from what was collected
    updates: tf.Tensor  # int32 [], updates that were made
    learned: Metrics  # of the updates, summed
    measured: Metrics  # of what was collected


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
            result = traced(seed)
            sums = metrics.merge(sums, result.learned, result.updates > 0)
            totals = metrics.merge(totals, result.measured)
            return index + 1, result.ok, count + result.updates, sums, totals

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
    return getattr(algorithm.learner, "histograms", dict)()


def make_update(algorithm: Algorithm, compiled: bool) -> Any:
    """Return the algorithm's update as a function that several programs may call."""

    @functools.wraps(algorithm.update)
    def update(*arguments):
        return _checked(algorithm, algorithm.update(*arguments))

    return program(update, compiled)


def _checked(algorithm: Algorithm, updated: Any) -> Updated:
    """Return what an update has returned; refuse what a user's own cannot return."""
    wrong = f"a {type(updated).__name__}"
    if isinstance(updated, Updated):
        if isinstance(updated.metrics, dict):
            return updated
        wrong = f"metrics that are a {type(updated.metrics).__name__}"
    raise UserError(
        f"{type(algorithm).__name__}.update returned {wrong}; expected "
        "tfagents_batch.types.Updated, with a dict of metrics: return Updated(metrics)"
    )


def learn(
    source: Source | Stores,
    algorithm: Algorithm,
    update: Any,
    collected: Collected,
    seed: int | tf.Tensor,
    step: tf.Tensor,
) -> tuple[Collected, tuple[tf.Tensor, Metrics]]:
    """Store what was collected, and make the updates that are due.

    What is stored is shown to the learner first: its updates see only samples of it.
    ``seed`` is that of the round, and ``step`` the progress before it.

    Returns:
      What was stored; the number of updates, int32 ``[]``, and sums of their metrics.
    """
    if isinstance(source, Stores):
        if observe := getattr(algorithm.learner, "observe", None):
            observe(collected.trajectory, collected.ok)
        collected = source.store(collected, step)
    count = tf.where(collected.ok, collected.updates, 0)

    def sample(seed):
        return source.sample(collected, seed, step)

    draw = tf.function(sample, autograph=False)
    sampled = draw.get_concrete_function(seed).structured_outputs
    known = _trace(update, sampled, seed, step)

    def body(index, sums):
        own_seed = seeds.update_seed(seed, index)
        updated = update(draw(own_seed), own_seed, step)
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
    """Return merged metrics of ``count`` updates, each summed scalar as their mean.

    ``grad/updates`` is a mean over rounds.
    """
    means = metrics.finish(totals, count)
    if UPDATES in totals:
        means[UPDATES] = Mean(totals[UPDATES], rounds)
    return means


def _trace(update: Any, trajectory: Trajectory, seed, step) -> Updated:
    """Trace an update for such arguments; return the tensors of its own graph."""
    arguments = nest.specs_of((trajectory, seed, step))
    return update.get_concrete_function(*arguments).structured_outputs


def refused(error: BaseException) -> str:
    """Return the operation that XLA has no kernel for; raise any other error.

    Raises:
      UserError: if a program of a GPU cannot step environments.
    """
    text, kinds = (
        str(error),
        (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError),
    )
    if isinstance(error, kinds):
        name = re.search(r"No registered '(\w+)' OpKernel for XLA", text)
        if name := name or re.search(r"unsupported operations.*?: (\w+)", text, re.S):
            return name[1]
    if failure := re.search(r"tfab:cuda:\d+: ([^\n]*)", text):
        raise UserError(
            f"{failure[1]}; use --compile=update, which steps them from the CPU"
        ) from None
    raise error


def compile_error(setting: str, mode: str, name: str, instead: str) -> UserError:
    """Return the error that names the operation, and what to do."""
    return UserError(
        f"{setting}={mode}: XLA cannot compile {name}; use {instead}, or another "
        "operation in the network"
    )
