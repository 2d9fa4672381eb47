"""Workers of a pool as tasks of Spark's jobs, one job for each batch.

A partition meets another Python process of the executors most of the time. So a process
keeps TensorFlow, a policy and environments, which are the same for every task, but no
episode: a task depends on its order and the weights alone. A task that Spark runs
again, elsewhere or twice, gives the same episodes.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import TYPE_CHECKING, Any

from tfagents_batch.distribute import resources, wire
from tfagents_batch.distribute.spark_pool import SparkPool
from tfagents_batch.distribute.wire import Arrays, Order, Piece
from tfagents_batch.errors import EnvError, Stopped, UserError, first_line
from tfagents_batch.metrics import Metrics, Sum
from tfagents_batch.offline.reading import session

if TYPE_CHECKING:
    from tfagents_batch.distribute.worker import Job, RolloutWorker

_POLL = 0.5
_END = 10.0  # seconds that closing waits for a job
_RETRIES = 4  # failures of one task before a job fails; 1 is usual on one machine
_worker_of: dict[str, RolloutWorker] = {}  # of the newest job, by the job's name


class SparkWorkers:
    """Tasks of a Spark session for a pickled job; satisfies ``pool.RemoteWorkers``."""

    def __init__(self, spark: Any, settings: SparkPool, job: bytes):
        self.count, self._settings = settings.parts, settings
        self._context = spark.sparkContext
        self._name = uuid.uuid4().hex
        self._job = self._context.broadcast(job)
        self._weights: tuple[int, Any] = (-1, None)
        self._waiting: list[tuple[int, Order]] = []
        self._submitted: list[tuple[int, Order]] = []
        self._running: Future | None = None
        self._jobs = 0
        self._thread = ThreadPoolExecutor(1, "tfagents_batch-spark")
        self.closing, self._closed = contextlib.ExitStack(), False  # by ``close``

    def facts(self) -> dict[str, Any]:
        """Return the spec of a worker's environments."""
        limit = self._settings.start_seconds
        self._submit(player(self._name, self._job), [None], limit)
        while (results := self._result(_POLL)) is None:
            pass
        return results[0]

    def submit(self, worker: int, order: Order, weights: Arrays) -> None:
        """Add an order to the next job, see ``pool.RemoteWorkers``."""
        if self._weights[0] != order.version:
            _, before = self._weights
            self._weights = order.version, self._context.broadcast(weights)
            if before is not None:
                before.destroy()
        self._waiting.append((worker, order))

    def wait(self, seconds: float) -> Iterator[tuple[int, Piece]]:
        """Yield the pieces of a job that has ended, see ``pool.RemoteWorkers``."""
        if self._running is None:
            self._submitted, self._waiting = self._waiting, []
            play = player(self._name, self._job, self._weights[1])
            orders = [order for _, order in self._submitted]
            self._submit(play, orders, self._settings.job_seconds)
        pieces = self._result(seconds)
        if pieces is not None:
            self._jobs += 1
            for (worker, _), piece in zip(self._submitted, pieces, strict=True):
                yield worker, piece

    def metrics(self) -> Metrics:
        """Return metrics since the last call."""
        jobs, self._jobs = self._jobs, 0
        return {"pool/jobs": Sum(jobs)}

    def events(self) -> list[dict[str, Any]]:
        """Return no events: Spark runs lost tasks again by itself."""
        return []

    def close(self) -> None:
        """End a running job, and Spark if it was started for it."""
        self._closed = True
        self.closing.close()

    def end(self) -> None:
        """End a job that runs, and free what was sent."""
        deadline = time.monotonic() + _END
        while self._running is not None and time.monotonic() < deadline:
            # Again and again, because a job that is only being sent is not cancelled.
            with contextlib.suppress(Exception):
                self._context.cancelJobGroup(self._name)
            if wait_for([self._running], _POLL).done:
                break
        self._thread.shutdown(wait=False, cancel_futures=True)
        for sent in (self._job, self._weights[1]):
            with contextlib.suppress(Exception):
                sent.destroy()

    def _submit(self, function: Callable, items: Sequence[Any], limit: float) -> None:
        """Start a job in the thread; it ends with what its tasks return."""
        if self._closed:
            raise Stopped("the workers were closed")
        partitions = min(self._settings.workers, len(items))

        def run() -> list[Any]:
            context = self._context
            context.setJobGroup(self._name, "rollouts", interruptOnCancel=True)
            return (
                context.parallelize(items, partitions).mapPartitions(function).collect()
            )

        self._limit, self._deadline = limit, time.monotonic() + limit
        self._running = self._thread.submit(run)

    def _result(self, seconds: float) -> list[Any] | None:
        """Return what tasks have returned; None if they are not ready in that time.

        It raises what a task raised, and an EnvError if the job failed or takes too
        long.
        """
        running = self._running
        assert running is not None  # see ``_submit``
        done, _ = wait_for([running], seconds)
        if not done:
            if time.monotonic() > self._deadline:
                self._context.cancelJobGroup(self._name)
                raise EnvError(
                    f"a job of Spark takes longer than {self._limit:g} s; see whether "
                    "its executors are busy, or raise pool.job_seconds, or "
                    "pool.start_seconds for the first one"
                )
            return None
        self._running = None
        try:
            results = running.result()
        except Exception as error:
            if self._closed:
                raise Stopped("the workers were closed") from None
            raise EnvError(f"a job of Spark failed: {_cause(error)}") from None
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results


def start(settings: SparkPool, job: Job) -> tuple[SparkWorkers, dict[str, Any]]:
    """Start workers, see ``pools.start``."""
    sent = wire.pickled(job)
    with contextlib.ExitStack() as stack:
        has_session = session.is_given()  # and its executors are elsewhere
        if has_session and settings.master is not None:
            raise UserError(
                f"master is {settings.master!r}, but this program has a session of "
                "Spark, which is used; leave master out"
            )
        if settings.master is not None:
            check_master(settings.master)
        elif not has_session:
            resources.check_memory(settings.workers)
        if not has_session and "PYSPARK_PYTHON" not in os.environ:
            # Else Spark would take whichever python3 it finds first.
            os.environ["PYSPARK_PYTHON"] = sys.executable
            stack.callback(os.environ.pop, "PYSPARK_PYTHON", None)
        master = settings.master or f"local[{settings.workers},{_RETRIES}]"
        spark = stack.enter_context(session.started(master))
        workers = SparkWorkers(spark, settings, sent)
        stack.callback(workers.end)
        facts = workers.facts()
        workers.closing = stack.pop_all()
    return workers, facts


def check_master(master: str) -> None:
    """Check that one of a cluster's masters answers."""
    if master.startswith("spark://"):
        masters = master.removeprefix("spark://").split(",")
        example = "spark://10.0.0.1:7077"
        resources.check_address("Spark", masters, example, "start the master there")


def _cause(error: Exception) -> str:
    """Return the line of a job's failure that says why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [
        line
        for line in lines
        if ("Error" in line or "Exception" in line) and not line.startswith("at ")
    ]
    return (told or [first_line(error)])[-1][:300]


def player(
    name: str, job: Any, weights: Any = None
) -> Callable[[Iterator[Order | None]], Iterator[Any]]:
    """Return a function of a partition, from orders to pieces or exceptions.

    An exception of the user's code is a result, so that Spark does not try it again.
    Without an order, the result is the spec of the environments. ``name`` is that of
    the job, for processes that know it already; the job, pickled, and the weights by
    name are broadcasts.
    """
    versions = wire.versions()  # of the run

    def play(orders: Iterator[Order | None]) -> Iterator[Any]:
        sent = None if weights is None else weights.value
        for order in orders:
            try:
                worker = _worker(name, job, versions)
                result = (
                    worker.facts() if order is None else worker.collect(order, sent)
                )
            except Exception as error:
                result = wire.portable(error)
            yield result

    return play


def _worker(name: str, job: Any, versions: dict[str, str]) -> RolloutWorker:
    """Return the worker of this process, which is made for its first task."""
    if name not in _worker_of:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        wire.check_versions(versions, wire.versions())
        for former in _worker_of.values():
            former.close()
        _worker_of.clear()
        # Not before the versions are compared: it imports most of the package.
        from tfagents_batch.distribute.worker import RolloutWorker

        _worker_of[name] = RolloutWorker(wire.unpickled(job.value))
    return _worker_of[name]
