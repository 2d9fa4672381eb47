"""Program of asynchronous training: predictors, trainers and updates in threads.

Each predictor runs compiled programs that step its environments, and puts what they
collected, pieces of experience, into a bounded queue. Trainers join pieces until there
are enough for an update. The thread of the run makes the updates, one at a time, and
publishes the new weights, which predictors copy between two of their programs. So no
policy mixes two versions, and nobody waits for an update to act. A program has several
pieces or updates, because a call from Python costs as much as a small update.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfagents_batch import seeds
from tfagents_batch.envs.processes import interrupts
from tfagents_batch.interfaces import Algorithm, Metrics
from tfagents_batch.ops import constants
from tfagents_batch.sources import metrics
from tfagents_batch.sources.queue import Queue
from tfagents_batch.training.programs import in_pieces, refused, rounds
from tfagents_batch.training.programs.adjusting import Adjusting
from tfagents_batch.training.programs.bounded import POLL, Bounded, Counts, Stopping
from tfagents_batch.training.programs.in_pieces import Pieces

_LOG = logging.getLogger("tfagents_batch")
_JOIN = 5.0  # seconds that closing waits for the threads
_READY = 1  # batches that wait for an update


class Asynchronous:
    """The training of a run in threads; an ``interfaces.Program``.

    Threads start with the first call and run until ``close``, also while the run
    evaluates and saves. An exception in a thread ends the next call.

    Args:
      source: predictors.
      algorithm: the algorithm that learns.
      mode, reason: what XLA compiles, and why.
      seed: seed of the run.
      step: i64 ``[]`` variable, environment steps already done.

    Attributes:
      rounds: number of updates of the newest call.
      mode, reason: part that XLA compiles, and why.
    """

    def __init__(
        self,
        source: Queue,
        algorithm: Algorithm,
        mode: str,
        reason: str,
        seed: int,
        step: tf.Variable,
    ):
        self.mode, self.reason, self.rounds = mode, reason, 0
        self._source, self._algorithm, self._settings = source, algorithm, source.config
        self._seed, self._step = seed, step
        self._now = self._first = int(step.numpy())
        self._version = 0
        self._adjusting = Adjusting(source, seed)
        self._numbers, choices = self._adjusting.numbers, self._adjusting.choices
        # A program for each value, so that nothing is compiled later.
        self._train = {
            joined: in_pieces.Updates(algorithm, joined, mode in ("full", "update"))
            for joined in choices["update_pieces"]
        }
        self._join = {
            joined: tf.function(in_pieces.joined, autograph=False)
            for joined in choices["update_pieces"]
        }
        pieces = source.config.pieces(mode == "full")
        self._collect = [
            {
                rows: in_pieces.collector(part, pieces, rows, mode == "full")
                for rows in choices["predict_rows"]
            }
            for part in source.parts
        ]
        self._untried = list(choices["update_pieces"])  # compiled by their first batch
        self._publish = tf.function(
            lambda: source.published.assign_from(algorithm.policy), autograph=False
        )
        self._refresh = [_copy(each, source.published) for each in source.policies]
        self._lock = threading.Lock()  # guards the published weights
        self._stopping, self._counts = threading.Event(), Counts()
        self._pieces = Bounded(self._settings.room, self._stopping)
        self._ready = Bounded(_READY, self._stopping)
        self._failed: BaseException | None = None
        self._failing = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._begun = 0.0  # when the newest call began
        self._warm: set[int] = set()  # predictors that have run all their programs
        self._learned: set[int] = set()  # numbers of pieces of updates that were made

    @property
    def step(self) -> int:
        """Environment steps that were learned from."""
        return self._now

    @property
    def failed(self) -> bool:
        """True if a thread has failed; the next call raises its exception."""
        return self._failed is not None

    def __call__(self, until: int, rounds: int) -> dict[str, Any]:
        """Make updates, see ``interfaces.Program``; a round is an update."""
        with interrupts.guard():
            try:
                return self._run(until, rounds)
            except BaseException as error:
                self._fail(error)
                name = refused.operation(error)
                if name is None:
                    raise
                mode = self.mode
                if self.reason != "set by the user":
                    mode = f"auto ({mode})"
                error = refused.user_error("--compile", mode, name, "--compile=off")
                raise error from None

    def traces(self) -> int:
        """Return how often a program was traced; more than once is a fault."""
        parts = [self._publish, *self._refresh]
        for each in (self._train, self._join, *self._collect):
            parts += each.values()
        return max(part.experimental_get_tracing_count() for part in parts)

    def origin(self) -> dict[str, str]:
        """Return that programs were traced."""
        return {"program": "traced"}

    def close(self) -> None:
        """End all threads."""
        self._stopping.set()
        if self._threads:
            for env in self._source.envs:
                env.stop()
        deadline = time.monotonic() + _JOIN
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._threads = [each for each in self._threads if each.is_alive()]
        if self._threads:
            names = ", ".join(each.name for each in self._threads)
            _LOG.warning("still in a call of TensorFlow after %g s: %s", _JOIN, names)

    def _run(self, until: int, most: int) -> dict[str, Any]:
        if not self._threads:
            self._start()
        warm = len(self._warm) == len(self._source.parts)
        warm = warm and len(self._learned) == len(self._train)
        self._counts.take()  # of evaluations and checkpoints since the call before
        self._begun = begin = time.perf_counter()
        waited, pieces, rows = 0.0, 0, 0
        done, sums, totals, vectors = 0, None, {}, {}
        while done < most and (done < 1 or self._now < until):
            ask = time.perf_counter()
            batch = self._take()
            waited += time.perf_counter() - ask
            if not done:
                totals = metrics.start(batch.metrics)
            updates, found, totals, vectors = self._learn(batch, totals)
            names = self._train[batch.joined].names
            sums = found if sums is None else in_pieces.join(names, sums, found)
            done, rows = done + updates, rows + batch.steps
            pieces += in_pieces.number(batch.trajectory)
        seconds, counts = time.perf_counter() - begin, self._counts.take()
        predicting = seconds * self._numbers.predictors
        self.rounds = done
        named = dict(zip(names, tf.unstack(sums), strict=True))
        found = rounds.summary(self._algorithm, named | vectors, totals, done, pieces)
        if warm:
            lag = float(named.get("lag/updates", 0.0)) / done
            self._adjusting.add(seconds, rows, done, lag)
            self._numbers = self._adjusting.numbers
        dropped = counts.get("dropped", 0)
        found |= {f"async/{k}": float(x) for k, x in self._numbers._asdict().items()}
        return found | {
            "async/predictions_per_second": counts.get("steps", 0) / seconds,
            "async/updates_per_second": done / seconds,
            "async/update_rows": rows / done,
            "async/update_wait": waited / seconds,
            "async/predictor_wait": min(1.0, counts.get("waited", 0) / predicting),
            "async/queue_rows": self._pieces.size,
            "async/dropped": dropped / (dropped + rows),
        }

    def _start(self) -> None:
        self._publish()
        names = [(self._predict, i) for i in range(len(self._source.parts))]
        names += [(self._fill, i) for i in range(self._settings.trainers)]
        for work, index in names:
            name = f"tfagents_batch-{work.__name__.strip('_')}-{index}"
            thread = threading.Thread(
                target=self._guarded, args=(work, index), name=name, daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _guarded(self, work: Callable[[int], None], index: int) -> None:
        try:
            with tf.device("/CPU:0"):  # device scopes are per thread
                work(index)
        except Stopping:
            pass
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Keep the first error, and end all threads."""
        with self._failing:
            if self._failed is None and not self._stopping.is_set():
                self._failed = error
            self._stopping.set()
        for env in self._source.envs:
            env.stop()

    def _take(self) -> Pieces:
        """Return the next batch; raise what ended the threads."""
        try:
            return self._ready.get()
        except Stopping:
            if self._failed is not None:
                raise self._failed from None
            raise

    def _predict(self, index: int) -> None:
        """Collect pieces, with the newest weights at the start of each."""
        part, collect, calls = self._source.parts[index], self._collect[index], 0
        count, untried = len(self._source.parts), list(collect)
        agents = part.batch
        while not self._stopping.is_set():
            numbers = self._numbers
            if index >= numbers.predictors and not untried:
                self._stopping.wait(POLL)
                part.env.check()
                continue
            rows = untried.pop() if untried else numbers.predict_rows
            if numbers.agents != agents:
                part.active.assign(numbers.agents)
                agents = numbers.agents
            with self._lock:
                version = self._version
                self._refresh[index]()
            number = calls * count + index
            seed = seeds.iteration_seed(self._seed, self._first + number, "predict")
            calls += 1
            trajectory, measured, steps = collect[rows](
                constants.argument(seed), constants.argument(self._now, tf.int64)
            )
            if not untried:
                self._warm.add(index)
            steps = int(steps)
            if not steps:
                continue
            found = Pieces(trajectory, measured, steps, version)
            waited = self._pieces.put(found, steps, part.env.check)
            waited = min(waited, time.perf_counter() - self._begun)
            self._counts.add(steps=steps, waited=waited)

    def _fill(self, index: int) -> None:
        """Join what predictors collected to batches."""
        most = self._settings.max_lag
        while not self._stopping.is_set():
            if index >= self._numbers.trainers:
                self._stopping.wait(POLL)
                continue
            joined = self._numbers.update_pieces
            if self._untried and not index:
                joined = self._untried.pop()
            parts: list[Pieces] = []
            while sum(in_pieces.number(part.trajectory) for part in parts) < joined:
                part = self._pieces.get()
                if most is not None and self._version - part.version > most:
                    self._counts.add(dropped=part.steps)
                else:
                    parts.append(part)
            self._ready.put(self._batch(parts, joined))

    def _batch(self, parts: list[Pieces], joined: int) -> Pieces:
        """Return several parts as one."""
        if len(parts) == 1:
            return parts[0]._replace(joined=joined)
        trajectory, measured = self._join[joined]([part[:2] for part in parts])
        steps = sum(part.steps for part in parts)
        return Pieces(trajectory, measured, steps, parts[0].version, joined)

    def _learn(self, batch: Pieces, totals: Metrics) -> tuple:
        """Make updates, and publish the new weights.

        Returns:
          Number of updates, sums of their scalar metrics, new totals, and the vectors
          of the last update.
        """
        seed = seeds.iteration_seed(self._seed, self._now)
        found = self._train[batch.joined](
            batch.trajectory,
            batch.metrics,
            totals,
            constants.argument(seed),
            constants.argument(self._now, tf.int64),
        )
        self._learned.add(batch.joined)
        updates = in_pieces.number(batch.trajectory) // batch.joined
        self._now += batch.steps
        self._step.assign(constants.argument(self._now, tf.int64))
        with self._lock:
            self._version += updates
            self._publish()
        return updates, *found


def _copy(policy: Any, published: Any) -> Any:
    """Return a program that copies the published weights to a policy."""
    return tf.function(lambda: policy.assign_from(published), autograph=False)
