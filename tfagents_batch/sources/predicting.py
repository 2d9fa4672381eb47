"""Programs of predictors, and the numbers that choose among them.

A program collects rollouts, or joins them for updates. The numbers may change between
two programs of a predictor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import metrics, nest, seeds
from tfagents_batch.graph import arrays
from tfagents_batch.graph.function import single_call
from tfagents_batch.sources.async_rollout import AsyncRollout
from tfagents_batch.sources.predicting import AutoTuner
from tfagents_batch.types import Trajectory


def collector(
    part: AsyncRollout, rollouts: int, wait_for: int, compiled: bool
) -> Callable:
    """Return the program of a predictor.

    It is a function of seed and environment steps that returns trajectories
    ``[K, T, n]``, their metrics, merged, and the number of transitions.
    """

    def collect(seed, step):
        one = functools.partial(part.collect, wait_for=wait_for)
        one = tf.function(one, autograph=False)
        known = one.get_concrete_function(seed, step).structured_outputs

        def body(index, steps, totals, written):
            found = one(seeds.update_seed(seed, index), step)
            written = arrays.write(written, index, found.trajectory)
            totals = metrics.merge(totals, found.metrics)
            return index + 1, steps + found.steps, totals, written

        like = nest.map(lambda x: tf.TensorSpec(x.shape, x.dtype), known.trajectory)
        start = tf.constant(0), tf.constant(0, tf.int64), metrics.start(known.metrics)
        _, steps, totals, written = tf.while_loop(
            lambda index, *_: index < rollouts,
            body,
            (*start, arrays.empty(rollouts, like)),
            parallel_iterations=1,
            name="rollouts",
        )
        totals = metrics.finish(totals, tf.constant(rollouts))
        return arrays.stack(written), totals, steps

    body = single_call(collect) if compiled else collect
    return tf.function(body, jit_compile=compiled, autograph=False)


def length(rollouts: Trajectory) -> int:
    """Return the number of rollouts ``[K, T, n]``."""
    return rollouts.steps.first.shape[0]


def joiner(count: int) -> Callable[[Sequence[Trajectory]], Trajectory]:
    """Return a program that joins rollouts, ``count`` of them for each update."""
    return tf.function(functools.partial(_joined, count=count), autograph=False)


def _joined(parts: Sequence[Trajectory], count: int) -> Trajectory:
    """Return the rollouts of updates, ``count`` of them side by side in each.

    Args:
      parts: rollouts ``[K, T, n]``.
      count: divides their number N.

    Returns:
      ``[N / count, T, count * n]``.
    """
    whole = nest.map(lambda *x: tf.concat(x, 0), *parts)
    groups = nest.unfold(whole, length(whole) // count, count)

    def columns(x):  # [groups, count, T, n, ...]
        group, _, time, *_ = x.shape
        order = [0, 2, 1, *range(3, x.shape.rank)]
        return tf.reshape(tf.transpose(x, order), [group, time, -1, *x.shape[4:]])

    def states(x):  # [groups, count, n, ...]
        return tf.reshape(x, [x.shape[0], -1, *x.shape[3:]])

    rows = nest.map(columns, groups._replace(state=()))
    return rows._replace(state=nest.map(states, groups.state))


class Numbers(NamedTuple):
    """Numbers that may change between two programs.

    Attributes:
      agents: environments of each predictor that are stepped.
      predict_batch: environments whose actions are selected at once.
      predictors: threads that work; the others rest.
      rollouts_per_update: a power of two.
    """

    agents: int
    predict_batch: int
    predictors: int
    rollouts_per_update: int


class Choice:
    """Choice of the numbers, which change only with ``queue.adjust``.

    Args:
      config: checked ``queue_settings.QueueSettings``.
      part: source of a predictor.
      count: number of predictors.
      seed: seed of the search.

    Attributes:
      values: possible values of each number.
      tuner: searches among them.
    """

    def __init__(self, config: Any, part: AsyncRollout, count: int, seed: int):
        self._config, self._part = config, part
        start, self.values = _choices(config, part, count)
        limits = config.adjust_seconds, config.adjust_lag
        self.tuner = AutoTuner(self.values, start, seed, *limits)

    @property
    def numbers(self) -> Numbers:
        """Numbers in use, with as many rollouts as the smallest update needs."""
        found = Numbers(**self.tuner.numbers)
        rows = [x for x in self.values["predict_batch"] if x <= found.agents]
        most = max(rows, default=found.predict_batch)
        found = found._replace(predict_batch=min(found.predict_batch, most))
        part, wanted = self._part, self._config.train_batch
        rows = _least_rows(found.agents, found.predict_batch, part.size, part.length)
        updates = self.values["rollouts_per_update"]
        least = min(x for x in updates if x * rows >= wanted)
        return found._replace(rollouts_per_update=max(found.rollouts_per_update, least))


def _choices(
    config: Any, part: AsyncRollout, count: int
) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Return the numbers of the start, and the possible values of each number."""
    size, length = part.size, part.length
    rows = _least_rows(part.batch, part.wait_for, size, length)
    rollouts = 1 << (-(-config.train_batch // rows) - 1).bit_length()
    start = Numbers(part.batch, part.wait_for, count, rollouts)
    start = start._asdict()
    if not config.adjust:
        return start, {name: [value] for name, value in start.items()}
    groups = part.batch // size
    agents = {groups}
    for i in range(8):  # closer together where they are small
        agents |= {max(1, groups >> i), max(1, 3 * groups >> (i + 2))}
    batches = {size << i for i in range(8) if size << i <= part.batch}
    updates = [rollouts, 2 * rollouts, 4 * rollouts]
    while updates[-1] * size * length < config.train_batch:  # with few agents
        updates.append(2 * updates[-1])
    return start, {
        "agents": [size * x for x in sorted(agents)[-9:]],
        "predict_batch": sorted({*batches, part.wait_for}),
        "predictors": list(range(1, count + 1)),
        "rollouts_per_update": updates,
    }


def _least_rows(agents: int, wait_for: int, size: int, length: int) -> int:
    """Return the smallest number of rows of a rollout.

    When it ends, fewer than ``wait_for`` of the agents lack steps, and the ``size``
    agents of a worker are at the same step.
    """
    return (agents - wait_for + size) * length
