"""Program of a source that Python fetches from: one batch ahead, on a thread.

While a compiled program updates, a thread fetches what the next updates learn from.
After each program, the source gets the new weights. Predictors, streams of logged data
and pools of remote workers all train in this way. A source that stores what it fetches
is sampled for each update, like a replay.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import tensorflow as tf

from tfagents_batch import metrics, nest, seeds
from tfagents_batch.devices.placement import Placement
from tfagents_batch.envs.processes import interrupts
from tfagents_batch.experience import HostSource, Stores
from tfagents_batch.graph import arrays
from tfagents_batch.graph.function import program
from tfagents_batch.interfaces import Algorithm
from tfagents_batch.metrics import Interval, Mean, Metrics, Result
from tfagents_batch.programs import rounds
from tfagents_batch.programs.rounds import compile_error, refused
from tfagents_batch.types import Collected, Trajectory


class HostProgram:
    """The training of a run from a host source; a ``program.Program``.

    Its ``rounds`` are the updates of the newest call, or the batches that were stored.
    """

    def __init__(
        self,
        source: HostSource,
        algorithm: Algorithm,
        mode: str,
        reason: str,
        seed: int,
        step: int,
        placement: Placement,
    ):
        self.mode, self.reason, self.rounds, self.step = mode, reason, 0, step
        self._source, self._algorithm, self._seed = source, algorithm, seed
        self._placement = placement
        self._updates: dict[Any, Any] = {}  # a program for each shape of a batch
        self._compiled = mode in ("full", "split", "update")
        self._update = rounds.make_update(algorithm, compiled=False)
        self._store = source if isinstance(source, Stores) else None
        self._thread = ThreadPoolExecutor(1, "tfagents_batch-fetch")
        self._ahead: Future | None = None
        source.start(mode in ("full", "split"))

    @property
    def failed(self) -> bool:
        """True if the source has failed; the next call raises its exception."""
        try:
            self._source.check()
        except BaseException:
            return True
        return False

    def __call__(self, until: int, rounds: int) -> dict[str, Any]:
        """Make updates, see ``program.Program``."""
        with interrupts.guard():
            try:
                return self._run(until, rounds)
            except BaseException as error:
                name, mode = refused(error), self.mode
                if self.reason != "set by the user":
                    mode = f"auto ({mode})"
                error = compile_error("--compile", mode, name, "--compile=off")
                raise error from None

    def traces(self) -> int:
        """Return how often a program was traced; more than once is a fault."""
        programs = self._updates.values()
        counts = [program.experimental_get_tracing_count() for program in programs]
        return max([self._source.traces(), *counts])

    def close(self) -> None:
        """End the source and the thread that fetches."""
        self._source.close()
        self._thread.shutdown(cancel_futures=True)

    def _run(self, until: int, most: int) -> dict[str, Any]:
        self._source.check()
        self._source.report(0.0)  # of evaluations and checkpoints since the call before
        interval, begin, waited = Interval(), time.perf_counter(), 0.0
        steps = updates = done = 0
        while done < most and (not done or self.step < until):
            ask = time.perf_counter()
            batch = self._next()
            waited += time.perf_counter() - ask
            interval.add(batch.metrics)
            learned, made = self._learn(batch)
            interval.add(learned)
            self._source.publish(self._algorithm.policy)
            self.step += int(batch.steps)
            steps, updates = steps + int(batch.steps), updates + made
            done += int(batch.updates)
        seconds = time.perf_counter() - begin
        interval.add(self._source.report(seconds))
        interval.add(metrics.to_host(rounds.histograms(self._algorithm)))
        self.rounds = done
        return interval.totals | {
            "async/updates_per_second": Mean(updates, seconds),
            "async/update_rows": Mean(steps, updates),
            "async/update_wait": Mean(waited, seconds),
        }

    def _next(self) -> Collected:
        """Return the batch that was fetched ahead, and begin with the next one."""
        if self._ahead is None:
            self._source.publish(self._algorithm.policy)
            self._ahead = self._thread.submit(self._source.fetch, self.step)
        batch = self._ahead.result()
        step = self.step + int(batch.steps)
        self._ahead = self._thread.submit(self._source.fetch, step)
        return batch

    def _learn(self, batch: Collected) -> tuple[Metrics, int]:
        """Make the updates of a batch; return their merged metrics and number."""
        if not batch.ok:
            return {}, 0
        trajectory = batch.trajectory
        shapes = tuple(x.shape for x in nest.flatten(trajectory))
        if shapes not in self._updates:
            body = self._several if self._store is None else self._stored
            self._updates[shapes] = program(body, self._compiled)
        step = arrays.argument(self.step, tf.int64)
        made = arrays.argument(int(batch.steps), tf.int64)
        with self._placement.updating():
            learned = self._updates[shapes](trajectory, step, made)
        if self._store is None:
            return metrics.to_host(learned), int(batch.updates)
        self._source.check()
        return learned.to_host()[0], int(learned.updates)

    def _stored(self, trajectories: Trajectory, step, made) -> Result:
        """Store the trajectory ``[1, T, B]``, and make the updates that are due."""
        seed = seeds.iteration_seed(tf.constant(self._seed), step)
        trajectory = nest.map(lambda x: x[0], trajectories)
        none, one = tf.constant(0), tf.constant(1)
        collected = Collected(made, tf.constant(True), none, {}, trajectory)
        assert self._store is not None
        parts = self._store, self._algorithm, self._update
        stored, (count, sums) = rounds.learn(*parts, collected, seed, step)
        learned = rounds.of_updates(sums, count, one)
        return Result(one, count, learned, metrics.finish(stored.metrics, one))

    def _several(self, trajectories: Trajectory, step, made) -> Metrics:
        """Update by trajectories ``[K, T, B]``, one after the other.

        Each has its share of the ``made`` steps since ``step``, and the seed that a
        program with one update in a round would give it.
        """
        count = nest.static_size(trajectories.steps.first)

        def one(index):
            return nest.map(lambda x: x[index], trajectories)

        def body(index, totals):
            now = step + tf.cast(index, tf.int64) * made // count
            seed = seeds.iteration_seed(tf.constant(self._seed), now)
            updated = self._update(one(index), seed, now)
            self._algorithm.policy.version.assign_add(1)
            return index + 1, metrics.merge(totals, updated.metrics)

        known = rounds.outline(self._update, one(0)).metrics
        _, totals = tf.while_loop(
            lambda index, _: index < count,
            body,
            (tf.constant(0), metrics.start(known)),
            parallel_iterations=1,
            name="updates",
        )
        number = tf.constant(count)
        return rounds.of_updates(totals, number, number)
