"""Compiled programs of asynchronous training: pieces are collected and learned from."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.envs.graph.function import function
from tfagents_batch.interfaces import MAX, Algorithm, Metrics
from tfagents_batch.ops import arrays
from tfagents_batch.ops.single_call import single_call
from tfagents_batch.sources import metrics
from tfagents_batch.sources.async_rollout import AsyncRollout
from tfagents_batch.training.programs import rounds
from tfagents_batch.types import Trajectory


class Pieces(NamedTuple):
    """What a predictor collected in one program, or several of these, joined.

    Attributes:
      trajectory: K pieces, ``[K, T, n]``.
      metrics: of what was collected, merged.
      steps: number of transitions.
      version: of the policy when the first of them began.
      joined: number of pieces of an update; 0 before they are joined.
    """

    trajectory: Trajectory
    metrics: Metrics
    steps: int
    version: int
    joined: int = 0


def collector(part: AsyncRollout, pieces: int, wait_for: int, compiled: bool) -> Any:
    """Return the program of a predictor, which collects pieces.

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
            lambda index, *_: index < pieces,
            body,
            (*start, arrays.empty(pieces, like)),
            maximum_iterations=pieces,
            parallel_iterations=1,
        )
        return arrays.stack(written), totals, steps

    body = single_call(collect) if compiled else collect
    return function(body, envs=[part.env], jit_compile=compiled, autograph=False)


class Updates:
    """Program of several updates, each on some pieces side by side.

    Args:
      algorithm: the algorithm that learns.
      joined: number of pieces of an update.
      compiled: whether XLA compiles it.

    Attributes:
      names: names of the scalar metrics of an update, known after the first call.
    """

    def __init__(self, algorithm: Algorithm, joined: int, compiled: bool):
        self._algorithm, self._joined = algorithm, joined
        self._update = rounds.make_update(algorithm, compiled=False)
        self.names: list[str] = []
        body = single_call(self._train) if compiled else self._train
        self._program = tf.function(body, jit_compile=compiled, autograph=False)

    def __call__(self, *arguments: Any) -> tuple[tf.Tensor, Metrics, Metrics]:
        """Update; arguments and results as of ``Asynchronous._learn``."""
        return self._program(*arguments)

    def experimental_get_tracing_count(self) -> int:
        return self._program.experimental_get_tracing_count()

    def _train(self, trajectory, measured, totals, seed, step):
        joined = self._joined
        count = number(trajectory) // joined
        groups = nest.unfold(trajectory, count, joined)

        def group(index):
            return _side_by_side(nest.map(lambda x: x[index], groups))

        known = rounds.outline(self._update, group(0)).metrics
        self.names = sorted(name for name, x in known.items() if not x.shape.rank)
        vectors = {k: tf.zeros(x.shape) for k, x in known.items() if x.shape.rank}

        def body(index, sums, vectors):
            found = self._update(group(index), seeds.update_seed(seed, index), step)
            self._algorithm.policy.version.assign_add(1)
            new = tf.stack([found.metrics[name] for name in self.names])
            sums = join(self.names, sums, new)
            return index + 1, sums, {name: found.metrics[name] for name in vectors}

        _, sums, vectors = tf.while_loop(
            lambda index, *_: index < count,
            body,
            (tf.constant(0), _start(self.names), vectors),
            maximum_iterations=count,
            parallel_iterations=1,
        )
        return sums, metrics.merge(totals, measured), vectors


def join(names: list[str], sums: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
    """Add metrics ``[n]`` of the given names; of maxima, take the larger one."""
    return tf.where(_maxima(names), tf.maximum(sums, new), sums + new)


def _start(names: list[str]) -> tf.Tensor:
    """Return the sums of ``join`` before the first update."""
    return tf.where(_maxima(names), -np.inf, tf.zeros([len(names)]))


def _maxima(names: list[str]) -> np.ndarray:
    return np.array([name.endswith(MAX) for name in names], bool)


def number(pieces: Trajectory) -> int:
    """Return the number of pieces ``[K, T, n]``."""
    return pieces.steps.first.shape[0]


def _side_by_side(pieces: Trajectory) -> Trajectory:
    """Return pieces ``[m, T, n]`` as one trajectory ``[T, m n]``."""

    def columns(x):
        m, time, n, *rest = x.shape
        order = [1, 0, *range(2, x.shape.rank)]
        return tf.reshape(tf.transpose(x, order), [time, m * n, *rest])

    rows = nest.map(columns, pieces._replace(state=()))
    return rows._replace(state=nest.fold(pieces.state))


def joined(parts: list[tuple[Trajectory, Metrics]]) -> tuple[Trajectory, Metrics]:
    """Return the pieces of several parts together, and their metrics merged."""
    trajectory = nest.map(
        lambda *x: tf.concat(x, 0), *(trajectory for trajectory, _ in parts)
    )
    totals = metrics.start(parts[0][1])
    for _, measured in parts:
        totals = metrics.merge(totals, measured)
    return trajectory, totals
