"""A program's call that collects on one device and updates on another one.

Environments in Python are stepped from the CPU, in a program of its own, by a policy
with variables of its own. What was collected goes to the GPU, whose program stores it,
updates, and returns the new weights. Each way it is one block for every dtype, because
a copy between devices costs about as much for a number as for a page. Everything else
of a round is inside the two programs, because a small operation between them costs as
much as in them a large one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import metrics, nest, seeds
from tfagents_batch.devices.placement import Placement
from tfagents_batch.experience import Source
from tfagents_batch.graph import arrays
from tfagents_batch.graph.arrays import Blocks
from tfagents_batch.graph.function import program
from tfagents_batch.interfaces import Algorithm, Policy
from tfagents_batch.metrics import Metrics, Result
from tfagents_batch.programs import rounds


class _Totals(NamedTuple):  # merged results of the rounds of a call
    updates: tf.Tensor
    learned: Metrics
    measured: Metrics


def call(
    source: Source,
    algorithm: Algorithm,
    update: Any,
    step: tf.Variable,
    placement: Placement,
    compiled: tuple[bool, bool],
) -> Callable[..., Result]:
    """Return the function of a call, see ``rounds.call``.

    Args:
      source: its ``actor`` lies on the device that collects, apart from the algorithm.
      algorithm, update: on the device that updates.
      step: on the device that collects.
      placement: the devices.
      compiled: whether XLA compiles collecting, and storing and updating.
    """
    weights = _variables(algorithm.policy)
    like: dict[str, Any] = {}  # what the blocks are, known when they are traced

    def collect(seed: tf.Tensor, before: tf.Tensor, block: Blocks) -> Blocks:
        values = arrays.split(block, nest.specs_of(weights))
        for variable, value in zip(_variables(source.actor), values, strict=True):
            variable.assign(value)
        collected = source.collect(seeds.iteration_seed(seed, before), before)
        like["collected"] = nest.specs_of(collected)
        return arrays.join(collected)

    def learn(block: Blocks, seed: tf.Tensor, before: tf.Tensor) -> tuple:
        """Return steps and ok, i64 ``[2]``, and what the round adds to the totals."""
        collected = arrays.split(block, like["collected"])
        now = seeds.iteration_seed(seed, before)
        collected, (count, learned) = rounds.learn(
            source, algorithm, update, collected, now, before
        )
        facts = tf.stack([collected.steps, tf.cast(collected.ok, tf.int64)])
        return facts, _Totals(count, learned, collected.metrics)

    def update_all(
        block: Blocks, seed: tf.Tensor, before: tf.Tensor, totals: Blocks
    ) -> tuple[tf.Tensor, Blocks, Blocks]:
        facts, (count, learned, measured) = learn(block, seed, before)
        known = arrays.split(totals, like["totals"])
        merged = _Totals(
            known.updates + count,
            metrics.merge(known.learned, learned, count > 0),
            metrics.merge(known.measured, measured),
        )
        return facts, newest(), arrays.join(merged)

    def newest() -> Blocks:
        return arrays.join([tf.convert_to_tensor(x) for x in weights])

    gather = program(collect, compiled[0])
    update_all = program(update_all, compiled[1])

    def iterate(seed, until, most):
        with placement.updating():
            block = newest()
            totals = arrays.join(_start(seed, block))

        def body(index, _, block, totals):
            before = step.read_value()
            with placement.collecting():
                gathered = gather(seed, before, block)
            with placement.updating():
                facts, block, totals = update_all(gathered, seed, before, totals)
            step.assign_add(facts[0])
            return index + 1, facts[1] > 0, block, totals

        def more(index, ok, *_):
            # At least one: a resumed run may have passed ``until`` already.
            return (index < most) & ok & ((index < 1) | (step.read_value() < until))

        loop = arrays.zeros([], tf.int32), tf.constant(True), block, totals
        index, _, _, totals = tf.while_loop(more, body, loop, parallel_iterations=1)
        with placement.updating():
            count, sums, measured = arrays.split(totals, like["totals"])
            learned = rounds.of_updates(sums, count, index)
            learned |= rounds.histograms(algorithm)
            return Result(index, count, learned, metrics.finish(measured, index))

    def _start(seed: tf.Tensor, block: Blocks) -> _Totals:
        """Return the totals before the first round, after a trace of one."""
        now, number, like_block = nest.specs_of((step, seed, block))
        gathered = gather.get_concrete_function(number, now, like_block)
        traced = tf.function(learn, autograph=False).get_concrete_function(
            nest.specs_of(gathered.structured_outputs), number, now
        )
        _, added = traced.structured_outputs
        parts = (metrics.start(x, wide=True) for x in added[1:])
        totals = _Totals(arrays.zeros([], tf.int32), *parts)
        like["totals"] = nest.specs_of(totals)
        return totals

    return iterate


def _variables(policy: Policy) -> list[Any]:
    """Return a policy's variables; those of policies of one kind are in one order."""
    return [*policy.named_variables().values(), policy.version]
