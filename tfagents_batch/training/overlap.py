"""Collect the next trajectory during an update, with a lag of one update.

A running program locks the variables that it reads. So the acting policy has its own
weights and statistics, copied from the algorithm's between two iterations. The
trajectory collected during update k uses the weights after update k - 1. Copies happen
at fixed points, independent of thread timing, so a seed reproduces the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.graph.function import function
from tfagents_batch.envs.processes import interrupts
from tfagents_batch.errors import UserError
from tfagents_batch.interfaces import Algorithm, Metrics, Source
from tfagents_batch.ops import masked
from tfagents_batch.ops.single_call import single_call
from tfagents_batch.training.metrics import collected

VERSION = "policy_version"  # in behavior: int64 [T, B], updates of the acting policy
_THREAD = "tfagents_batch-collect"


def check_separate(actor: Algorithm, algorithm: Algorithm) -> None:
    """Check that the acting policy shares no variable with the trained policy.

    Raises:
      UserError: if they share any.
    """
    acting, trained = (each.named_variables().values() for each in (actor, algorithm))
    if {id(variable) for variable in acting} & {id(variable) for variable in trained}:
        raise UserError(
            "--overlap needs a second network to collect with, but your function "
            "returned the same model twice; create a new model in every call"
        )


class Overlapped:
    """An iteration that updates while the next trajectory is collected.

    Args:
      source: collects trajectories with ``actor``.
      algorithm: the algorithm that is trained.
      actor: another algorithm of the same kind, without shared variables.
      update: the algorithm's update, ``(trajectory, seed) -> metrics``.
      place: TensorFlow device of the update.
      compiled: whether collecting is compiled.
      info: info columns to report, see ``metrics.episode_info_metrics``.
    """

    def __init__(
        self,
        source: Source,
        algorithm: Algorithm,
        actor: Algorithm,
        update: Any,
        place: str,
        compiled: bool,
        info: Sequence[str] = (),
    ):
        self._source, self._info = source, info
        self._update, self._place = update, place
        self._updates = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._acting_version = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._next: tuple | None = None
        acting, trained = actor.named_variables(), algorithm.named_variables()
        self._pairs = [
            (acting[k], trained[k]) for k in trained if not k.startswith("optimizer/")
        ]
        body = single_call(self._collect_step) if compiled else self._collect_step
        self._collect = function(
            body, envs=[source.env], jit_compile=compiled, autograph=False
        )
        self._copy = tf.function(self._copy_variables, autograph=False)

    def __call__(self, seed: tf.Tensor) -> Metrics:
        """Collect a trajectory and update on the previous one; return all metrics."""
        if self._next is None:  # first call: there is no trajectory yet
            self._copy()
            first = seeds.iteration_seed(int(seed), 0, "overlap")
            self._next = self._run_collect(tf.constant(first, tf.int32))
        (trajectory, ok, metrics), self._next = self._next, None
        with interrupts.guard(), ThreadPoolExecutor(1, _THREAD) as thread:
            future = thread.submit(self._run_collect, seed)
            if ok:
                lag = self._updates - trajectory.behavior[VERSION]
                with tf.device(self._place):
                    learned = dict(self._update(trajectory, seed))
                self._updates.assign_add(1)
                metrics = metrics | learned
                metrics["lag/updates"] = masked.mean(
                    tf.cast(lag, tf.float32), trajectory.mask
                )
        self._next = future.result()  # raises the thread's exception
        self._copy()
        return metrics

    def experimental_get_tracing_count(self) -> int:
        """Return the trace count of the part that was traced most often."""
        parts = self._collect, self._update, self._copy
        return max(part.experimental_get_tracing_count() for part in parts)

    def _run_collect(self, seed):
        with tf.device("/CPU:0"):  # device scopes are per thread
            return self._collect(seed)

    def _collect_step(self, seed):
        trajectory = self._source(seed)
        version = tf.fill(trajectory.mask.shape, self._acting_version.read_value())
        behavior = trajectory.behavior | {VERSION: version}
        trajectory = trajectory._replace(behavior=behavior)
        metrics = collected(self._source, trajectory, self._info)
        return trajectory, self._source.ok(), metrics

    def _copy_variables(self):
        for acting, trained in self._pairs:
            acting.assign(tf.convert_to_tensor(trained))
        self._acting_version.assign(self._updates)
