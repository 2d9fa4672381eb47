"""Collect the next trajectory during an update, with a lag of one update.

A running program locks the variables that it reads. So the acting policy has its own
weights and statistics, copied from the algorithm's between two iterations. The
trajectory collected during update k uses the weights after update k - 1. Copies happen
at fixed points, independent of thread timing, so a seed reproduces the same run.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tensorflow as tf

from tfagents_batch import metrics, seeds
from tfagents_batch.devices.placement import Placement
from tfagents_batch.envs.graph.function import call, function
from tfagents_batch.envs.processes import interrupts
from tfagents_batch.experience import Source
from tfagents_batch.graph.function import program, single_call
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.metrics import Result
from tfagents_batch.ops import masked
from tfagents_batch.programs import rounds
from tfagents_batch.tracing import anew
from tfagents_batch.types import VERSION, Collected

_THREAD = "tfagents_batch-collect"


class Ahead:
    """One iteration: update while the next trajectory is collected.

    Args:
      source: collects trajectories with a policy of its own, ``actor``.
      algorithm, update, step: see ``rounds.call``.
      placement: the devices.
      compiled: whether collecting is compiled.
    """

    def __init__(
        self,
        source: Source,
        algorithm: Algorithm,
        update: Any,
        step: tf.Variable,
        placement: Placement,
        compiled: bool,
    ):
        self._source, self._trained = source, algorithm.policy
        self._acting = acting = source.actor
        self._update, self._step, self._placement = update, step, placement
        self._ahead: Collected | None = None
        body = single_call(self._collect_step) if compiled else self._collect_step
        self._collect = function(
            anew(body), envs=source.envs, jit_compile=compiled, autograph=False
        )
        self._copy = program(lambda: acting.assign_from(algorithm.policy), False)

    def __call__(self, seed: tf.Tensor, until: tf.Tensor, most: tf.Tensor) -> Result:
        """Update from the trajectory collected before: one round, see ``rounds.call``.

        Its metrics are those of that trajectory.
        """
        del until, most
        return call(self._source.envs, self._round, seed)

    def _round(self, seed: tf.Tensor) -> Result:
        step = self._step.read_value()
        now = seeds.iteration_seed(seed, step)
        if self._ahead is None:  # first call: no trajectory was collected yet
            self._copy()
            first = seeds.iteration_seed(now, tf.constant(0, tf.int64), "overlap")
            self._ahead = self._run_collect(first, step)
        collected, self._ahead = self._ahead, None
        none, one = tf.constant(0), tf.constant(1)
        result = Result(one, none, {}, metrics.finish(collected.metrics, one))
        with interrupts.guard(), ThreadPoolExecutor(1, _THREAD) as thread:
            future = thread.submit(self._run_collect, now, step)
            if collected.ok:
                trajectory = self._source.sample(collected, now, step)
                lag = self._trained.version - trajectory.behavior[VERSION]
                with self._placement.updating():
                    updated = self._update(trajectory, now, step)
                self._trained.version.assign_add(1)
                self._step.assign_add(collected.steps)
                lag = masked.mean(tf.cast(lag, tf.float32), trajectory.mask)
                learned = {"lag/updates": lag} | updated.metrics
                learned = rounds.of_updates(learned, one, one)
                result = result._replace(updates=one, learned=learned)
        self._ahead = future.result()  # raises the thread's exception
        self._copy()
        return result

    def experimental_get_tracing_count(self) -> int:
        """Return the trace count of the part that was traced most often."""
        parts = self._collect, self._update, self._copy
        return max(part.experimental_get_tracing_count() for part in parts)

    def _run_collect(self, seed: int | tf.Tensor, step: tf.Tensor) -> Collected:
        with self._placement.collecting():  # device scopes are per thread
            return self._collect(seed, step)

    def _collect_step(self, seed, step):
        collected = self._source.collect(seed, step)
        trajectory = collected.trajectory
        version = tf.fill(trajectory.mask.shape, self._acting.version.read_value())
        behavior = {VERSION: version} | trajectory.behavior  # a source knows better
        return collected._replace(trajectory=trajectory._replace(behavior=behavior))
