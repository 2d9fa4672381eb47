"""Rounds that collect on one device and update on another one.

Environments in Python are stepped from the CPU, in a program of its own, by a policy
with variables of its own. What was collected goes to the GPU, whose program stores it,
updates, and returns the new weights. Each way it is one block for every dtype, because
a copy between devices costs about as much for a number as for a page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.graph import blocks
from tfagents_batch.graph.single_call import single_call
from tfagents_batch.interfaces import Algorithm, Policy, Source
from tfagents_batch.placement import Placement
from tfagents_batch.programs.rounds import Round, learn
from tfagents_batch.types import Nest


def one_round(
    source: Source,
    algorithm: Algorithm,
    update: Any,
    step: tf.Variable,
    placement: Placement,
    compiled: tuple[bool, bool],
) -> tuple[Callable[..., Round], Callable[[], Nest]]:
    """Return a round for ``rounds.call``, and what its first one starts with.

    Args:
      source: its ``actor`` lies on the device that collects, apart from the algorithm.
      algorithm: lies on the device that updates.
      update: the algorithm's update, from ``rounds.make_update``.
      step: i64 ``[]``, progress of the run.
      placement: the devices.
      compiled: whether XLA compiles collecting, and storing and updating.
    """
    weights = _variables(algorithm.policy)
    like: dict[str, Nest] = {}  # what the blocks are, known when they are traced

    def collect(seed, step, block):
        values = blocks.split(block, nest.map(_spec, weights))
        for variable, value in zip(_variables(source.actor), values, strict=True):
            variable.assign(value)
        collected = source.collect(seed, step)
        like["collected"] = nest.map(_spec, collected)
        return blocks.join(collected)

    def update_all(block, seed, step):
        collected = blocks.split(block, like["collected"])
        collected, learned = learn(source, algorithm, update, collected, seed, step)
        found = Round(collected.ok, *learned, collected.metrics), collected.steps
        like["found"] = nest.map(_spec, found)
        return blocks.join(found), blocks.join(_values(weights))

    collect = _program(collect, compiled[0])
    update_all = _program(update_all, compiled[1])

    def one(seed, block):
        before = step.read_value()
        now = seeds.iteration_seed(seed, before)
        with placement.collecting():
            gathered = collect(now, before, block)
        with placement.updating():
            found, block = update_all(gathered, now, before)
        found, made = blocks.split(found, like["found"])
        step.assign_add(made)
        return found._replace(carried=block)

    def start():
        with placement.updating():
            return blocks.join(_values(weights))

    return one, start


def _program(function: Callable, compiled: bool) -> Callable:
    body = single_call(function) if compiled else function
    return tf.function(body, jit_compile=compiled, autograph=False)


def _variables(policy: Policy) -> list[Any]:
    """Return a policy's variables; those of policies of one kind are in one order."""
    return [*policy.named_variables().values(), policy.version]


def _values(variables: list[Any]) -> list[tf.Tensor]:
    return [tf.convert_to_tensor(x) for x in variables]


def _spec(x: Any) -> tf.TensorSpec:
    return tf.TensorSpec(x.shape, tf.as_dtype(x.dtype))
