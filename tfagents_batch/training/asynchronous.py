"""Program of asynchronous training: predictors, trainers and updates in threads.

Each predictor runs compiled programs that step its environments, and puts what they
collected, pieces of experience, into a bounded queue. Trainers join pieces until there
are enough for an update. The thread of the run makes the updates, one at a time, and
publishes the new weights, which predictors copy between two of their programs. So no
policy mixes two versions, and nobody waits for an update to act. A program has several
pieces or updates, because a call from Python costs as much as a small update.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import nest, seeds
from tfagents_batch.envs.graph.function import function
from tfagents_batch.envs.processes import interrupts
from tfagents_batch.interfaces import Algorithm, Metrics
from tfagents_batch.ops import arrays
from tfagents_batch.ops.single_call import single_call
from tfagents_batch.sources import metrics
from tfagents_batch.sources.async_rollout import AsyncRollout
from tfagents_batch.sources.queue import Queue
from tfagents_batch.training import rounds
from tfagents_batch.types import Trajectory

_POLL = 0.2  # seconds after which a waiting thread looks whether it should stop
_JOIN = 5.0  # seconds that closing waits for a thread
_READY = 1  # batches that wait for an update


class Pieces(NamedTuple):
    """What a predictor collected in one program, or several of these, joined.

    Attributes:
      trajectory: K pieces, ``[K, T, n]``.
      metrics: of what was collected, merged.
      steps: number of transitions.
      version: of the oldest policy when it began.
    """

    trajectory: Trajectory
    metrics: Metrics
    steps: int
    version: int


class _Stopping(Exception):
    """A thread should end."""


class Bounded:
    """Queue between threads whose content is bounded.

    Args:
      capacity: largest sum of sizes; a single larger item fits if it is empty.
      stopping: once set, ``put`` and ``get`` raise ``_Stopping``.

    Attributes:
      size: sum of the sizes of its items.
    """

    def __init__(self, capacity: int, stopping: threading.Event):
        self._capacity, self._stopping = capacity, stopping
        self._items: deque[tuple[Any, int]] = deque()
        self._changed = threading.Condition()
        self.size = 0

    def put(self, item: Any, size: int = 1) -> float:
        """Add an item when there is room; return the seconds waited."""

        def fits():
            return not self._items or self.size + size <= self._capacity

        with self._changed:
            waited = self._wait(fits)
            self._items.append((item, size))
            self.size += size
            self._changed.notify_all()
        return waited

    def get(self) -> Any:
        """Remove and return the oldest item when there is one."""
        with self._changed:
            self._wait(lambda: self._items)
            item, size = self._items.popleft()
            self.size -= size
            self._changed.notify_all()
        return item

    def _wait(self, ready: Callable[[], Any]) -> float:
        begin = time.perf_counter()
        while not ready():
            if self._stopping.is_set():
                raise _Stopping
            self._changed.wait(_POLL)
        if self._stopping.is_set():
            raise _Stopping
        return time.perf_counter() - begin


class Counts:
    """Sums of what threads did, since the last call of ``take``."""

    def __init__(self):
        self._lock, self._sums = threading.Lock(), {}

    def add(self, **numbers: float) -> None:
        with self._lock:
            for name, x in numbers.items():
                self._sums[name] = self._sums.get(name, 0) + x

    def take(self) -> dict[str, float]:
        with self._lock:
            taken, self._sums = self._sums, {}
        return taken


class Asynchronous:
    """The training of a run in threads; an ``interfaces.Program``.

    Threads start with the first call and run until ``close``, also while the run
    evaluates and saves. An exception in a thread ends the next call.

    Args:
      source: predictors.
      algorithm: the algorithm that learns.
      modes: what XLA compiles, the first of ``Plan.modes``.
      reason: reason for that.
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
        self._train = _Updates(algorithm, source.joined, mode in ("full", "update"))
        self._join = tf.function(_joined, autograph=False)
        pieces = source.config.pieces(source.compilable)
        self._collect = [
            _collector(part, pieces, mode == "full") for part in source.parts
        ]
        self._publish = tf.function(
            lambda: source.published.assign_from(algorithm.policy), autograph=False
        )
        self._refresh = [_copy(each, source.published) for each in source.policies]
        self._lock = threading.Lock()  # guards the published weights
        self._stopping, self._counts = threading.Event(), Counts()
        self._pieces = Bounded(self._settings.capacity, self._stopping)
        self._ready = Bounded(_READY, self._stopping)
        self._failed: BaseException | None = None
        self._threads: list[threading.Thread] = []

    @property
    def step(self) -> int:
        """Environment steps that were learned from."""
        return self._now

    def __call__(self, until: int, rounds: int) -> dict[str, Any]:
        """Make updates, see ``interfaces.Program``; a round is an update."""
        with interrupts.guard():
            try:
                return self._run(until, rounds)
            except BaseException as error:
                self._fail(error)
                raise

    def traces(self) -> int:
        """Return how often a program was traced; more than once is a fault."""
        parts = self._train, self._join, self._publish, *self._collect, *self._refresh
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
        for thread in self._threads:
            thread.join(_JOIN)
        self._threads = []

    def _run(self, until: int, most: int) -> dict[str, Any]:
        if not self._threads:
            self._start()
        self._counts.take()
        begin, waited, pieces, rows = time.perf_counter(), 0.0, 0, 0
        done, sums, totals, vectors = 0, None, {}, {}
        while done < most and (done < 1 or self._now < until):
            ask = time.perf_counter()
            batch = self._take(self._ready)
            waited += time.perf_counter() - ask
            if not done:
                totals = metrics.start(batch.metrics)
            updates, found, totals, vectors = self._learn(batch, totals)
            sums = found if sums is None else sums + found
            done, rows = done + updates, rows + batch.steps
            pieces += _number(batch.trajectory)
        seconds = time.perf_counter() - begin
        self.rounds = done
        named = dict(zip(self._train.names, tf.unstack(sums), strict=True))
        found = rounds.summary(self._algorithm, named | vectors, totals, done, pieces)
        counts = self._counts.take()
        predicting = seconds * len(self._source.parts)
        return found | {
            "async/predictions_per_second": counts.get("steps", 0) / seconds,
            "async/updates_per_second": done / seconds,
            "async/update_rows": rows / done,
            "async/update_wait": waited / seconds,
            "async/predictor_wait": min(1.0, counts.get("waited", 0) / predicting),
            "async/queue_rows": self._pieces.size,
            "async/dropped_rows": counts.get("dropped", 0),
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
        except _Stopping:
            pass
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Keep the first error, and end all threads."""
        if self._failed is None and not self._stopping.is_set():
            self._failed = error
        self._stopping.set()
        for env in self._source.envs:
            env.stop()

    def _take(self, queue: Bounded) -> Any:
        """Return the next item; raise what ended the threads."""
        try:
            return queue.get()
        except _Stopping:
            if self._failed is not None:
                raise self._failed from None
            raise

    def _predict(self, index: int) -> None:
        """Collect pieces, with the newest weights at the start of each."""
        collect, calls = self._collect[index], 0
        count = len(self._source.parts)
        while not self._stopping.is_set():
            with self._lock:
                version = self._version
                self._refresh[index]()
            number = calls * count + index
            seed = seeds.iteration_seed(self._seed, self._first + number, "predict")
            calls += 1
            trajectory, measured, steps = collect(
                tf.constant(seed, tf.int32), tf.constant(self._now, tf.int64)
            )
            steps = int(steps)
            if not steps:
                continue
            waited = self._pieces.put(
                Pieces(trajectory, measured, steps, version), steps
            )
            self._counts.add(steps=steps, waited=waited)

    def _fill(self, index: int) -> None:
        """Join what predictors collected to batches."""
        del index
        most, joined = self._settings.max_lag, self._source.joined
        while not self._stopping.is_set():
            parts: list[Pieces] = []
            while sum(_number(part.trajectory) for part in parts) < joined:
                part = self._pieces.get()
                if most is not None and self._version - part.version > most:
                    self._counts.add(dropped=part.steps)
                else:
                    parts.append(part)
            self._ready.put(self._batch(parts))

    def _batch(self, parts: list[Pieces]) -> Pieces:
        """Return several parts as one."""
        if len(parts) == 1:
            return parts[0]
        trajectory, measured = self._join([part[:2] for part in parts])
        steps = sum(part.steps for part in parts)
        return Pieces(trajectory, measured, steps, min(part.version for part in parts))

    def _learn(self, batch: Pieces, totals: Metrics) -> tuple:
        """Make updates, and publish the new weights.

        Returns:
          Number of updates, sums of their scalar metrics, new totals, and the vectors
          of the last update.
        """
        seed = seeds.iteration_seed(self._seed, self._now)
        found = self._train(
            batch.trajectory,
            batch.metrics,
            totals,
            tf.constant(seed, tf.int32),
            tf.constant(self._now, tf.int64),
        )
        updates = _number(batch.trajectory) // self._source.joined
        self._now += batch.steps
        self._step.assign(self._now)
        with self._lock:
            self._version += updates
            self._publish()
        return updates, *found


def _collector(part: AsyncRollout, pieces: int, compiled: bool) -> Any:
    """Return the program of a predictor, which collects pieces.

    It is a function of seed and environment steps that returns trajectories
    ``[K, T, n]``, their metrics, merged, and the number of transitions.
    """

    def collect(seed, step):
        one = tf.function(part.collect, autograph=False)
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


def _copy(policy: Any, published: Any) -> Any:
    """Return a program that copies the published weights to a policy."""
    return tf.function(lambda: policy.assign_from(published), autograph=False)


class _Updates:
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
        count = _number(trajectory) // joined
        groups = nest.unfold(trajectory, count, joined)

        def group(index):
            return _side_by_side(nest.map(lambda x: x[index], groups))

        known = rounds.outline(self._update, group(0)).metrics
        self.names = sorted(name for name, x in known.items() if not x.shape.rank)
        vectors = {k: tf.zeros(x.shape) for k, x in known.items() if x.shape.rank}

        def body(index, sums, vectors):
            found = self._update(group(index), seeds.update_seed(seed, index), step)
            self._algorithm.policy.version.assign_add(1)
            sums += tf.stack([found.metrics[name] for name in self.names])
            return index + 1, sums, {name: found.metrics[name] for name in vectors}

        _, sums, vectors = tf.while_loop(
            lambda index, *_: index < count,
            body,
            (tf.constant(0), tf.zeros([len(self.names)]), vectors),
            maximum_iterations=count,
            parallel_iterations=1,
        )
        return sums, metrics.merge(totals, measured), vectors


def _number(pieces: Trajectory) -> int:
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


def _joined(parts: list[tuple[Trajectory, Metrics]]) -> tuple[Trajectory, Metrics]:
    """Return the pieces of several parts together, and their metrics merged."""
    trajectory = nest.map(
        lambda *x: tf.concat(x, 0), *(trajectory for trajectory, _ in parts)
    )
    totals = metrics.start(parts[0][1])
    for _, measured in parts:
        totals = metrics.merge(totals, measured)
    return trajectory, totals
