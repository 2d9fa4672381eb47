"""Collect the next trajectory while this one is learned from, with a lag of one.

A running program holds the variables that it reads, so acting has weights and
statistics of its own, copied from the algorithm's between two iterations. What is
collected beside update k was acted on with what update k - 1 left. All copies are
made at the same places whatever the threads do, so a seed gives the same run again.
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

VERSION = "policy_version"  # in behavior: int64 [T, B], updates that acting had seen
_THREAD = "tfagents_batch-collect"


def check_apart(actor: Algorithm, algorithm: Algorithm) -> None:
    """Refuse an actor that acts with the very variables that are learned.

    Raises:
      UserError: if they share any.
    """
    mine, its = (each.named_variables().values() for each in (actor, algorithm))
    if {id(variable) for variable in mine} & {id(variable) for variable in its}:
        raise UserError(
            "--overlap acts with a second network, but the function that builds "
            "yours returned the same model twice; make a new one in every call"
        )


class Overlapped:
    """An iteration whose update runs beside the next one's collecting.

    Args:
      source: acts with ``actor``.
      algorithm: learns.
      actor: another algorithm of the same kind; variables it does not share.
      update: ``(trajectory, seed) -> metrics``, of the algorithm.
      place: TensorFlow's device for it.
      compiled: whether collecting is compiled.
      info: what to tell of the environments' infos, see ``metrics.told``.
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
        self._seen = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._ahead: tuple | None = None
        mine, its = actor.named_variables(), algorithm.named_variables()
        self._pairs = [
            (mine[name], its[name]) for name in its if not name.startswith("optimizer/")
        ]
        body = single_call(self._collecting) if compiled else self._collecting
        self._collect = function(
            body, envs=[source.env], jit_compile=compiled, autograph=False
        )
        self._copy = tf.function(self._copying, autograph=False)

    def __call__(self, seed: tf.Tensor) -> Metrics:
        """Learn from what was collected before; returns its metrics."""
        if self._ahead is None:  # the first: nothing was collected yet
            self._copy()
            first = seeds.iteration_seed(int(seed), 0, "overlap")
            self._ahead = self._collected(tf.constant(first, tf.int32))
        (trajectory, ok, metrics), self._ahead = self._ahead, None
        with interrupts.guard(), ThreadPoolExecutor(1, _THREAD) as thread:
            ahead = thread.submit(self._collected, seed)
            if ok:
                lag = self._updates - trajectory.behavior[VERSION]
                with tf.device(self._place):
                    learned = dict(self._update(trajectory, seed))
                self._updates.assign_add(1)
                metrics = metrics | learned
                metrics["lag/updates"] = masked.mean(
                    tf.cast(lag, tf.float32), trajectory.mask
                )
        self._ahead = ahead.result()  # what went wrong there is raised here
        self._copy()
        return metrics

    def experimental_get_tracing_count(self) -> int:
        """As of a ``tf.function``: of the part that was traced most often."""
        parts = self._collect, self._update, self._copy
        return max(part.experimental_get_tracing_count() for part in parts)

    def _collected(self, seed):
        with tf.device("/CPU:0"):  # of the thread that this runs in
            return self._collect(seed)

    def _collecting(self, seed):
        trajectory = self._source(seed)
        version = tf.fill(trajectory.mask.shape, self._seen.read_value())
        behavior = trajectory.behavior | {VERSION: version}
        trajectory = trajectory._replace(behavior=behavior)
        metrics = collected(self._source, trajectory, self._info)
        return trajectory, self._source.ok(), metrics

    def _copying(self):
        for mine, its in self._pairs:
            mine.assign(tf.convert_to_tensor(its))
        self._seen.assign(self._updates)
