"""Workers of a pool as actors of Ray, replaced when they die or do not answer."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from tfagents_batch.distribute import ray_session, resources, wire, worker
from tfagents_batch.distribute.ray_pool import RayPool
from tfagents_batch.distribute.wire import Arrays, Order, Piece
from tfagents_batch.errors import (
    EnvError,
    Stopped,
    UserError,
    WorkerCrashed,
    first_line,
)
from tfagents_batch.metrics import Max, Metrics, Sum

_ASK = 2.0  # seconds after which an actor with an order is asked whether it lives
_LOOK = 10.0  # seconds between two looks at what Ray has written to disks
_CLOSE = 2.0  # seconds that actors have to close their environments


class RayActor:
    """Actor of Ray: a ``RolloutWorker`` that is made once versions agree."""

    def __init__(self, versions: dict[str, str], job: bytes, cores: int):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._failed: BaseException | None = None
        try:
            wire.check_versions(versions, wire.versions())
            self._worker = worker.RolloutWorker(wire.unpickled(job), cores)
        except Exception as error:  # else Ray reports only that the actor is dead
            self._failed = wire.portable(error)

    def facts(self) -> dict[str, Any]:
        """Return the spec of its environments."""
        self._check()
        return self._worker.facts()

    def collect(self, order: Order, weights: Arrays | None) -> Piece:
        """Collect a rollout."""
        self._check()
        try:
            return self._worker.collect(order, weights)
        except Exception as error:
            raise wire.portable(error) from None

    def alive(self) -> int:
        """Return its process; answers also during ``collect``."""
        return os.getpid()

    def close(self) -> None:
        """Close the environments."""
        if self._failed is None:
            self._worker.close()

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed


class RayWorkers:
    """Started actors for a pickled job; satisfies ``pool.RemoteWorkers``."""

    def __init__(self, ray: Any, settings: RayPool, job: bytes):
        self.count, self._ray, self._settings = settings.workers, ray, settings
        self._job = job
        self.closing, self._closed = contextlib.ExitStack(), False  # by ``close``
        self._kind = ray.remote(concurrency_groups={"control": 1})(_controlled(ray))
        self._replaced = [0] * self.count
        self._actors = [self._create() for _ in range(self.count)]
        self._running: dict[int, _Running] = {}  # what each worker is at
        self._started = [True] * self.count  # or has not answered since it was replaced
        self._has = [-1] * self.count  # version of the weights of each
        self._sent: tuple[int, Any] = (-1, None)
        self._events: list[dict[str, Any]] = []
        self._restarts, self._spilled, self._looked = 0, 0, time.monotonic()

    def facts(self) -> dict[str, Any]:
        """Return the spec of a worker's environments, once all have started.

        Raises:
          UserError, EnvError: if one of them cannot start, or has other spaces.
        """
        asked = [actor.facts.remote() for actor in self._actors]
        _, late = self._ray.wait(
            asked, num_returns=len(asked), timeout=self._settings.start_seconds
        )
        if late:
            raise UserError(
                f"{len(late)} of {len(asked)} workers have not started after "
                f"{self._settings.start_seconds:g} s; see `ray status` for what they "
                "wait for, or raise pool.start_seconds"
            )
        first, *others = (self._result(i, ref) for i, ref in enumerate(asked))
        for index, other in enumerate(others, 1):
            if other != first:
                raise UserError(
                    f"worker {index} has environments with {other}, worker 0 with "
                    f"{first}; install the same packages and files on every machine"
                )
        return first

    def submit(self, worker: int, order: Order, weights: Arrays) -> None:
        """Give a worker an order, see ``pool.RemoteWorkers``."""
        self._check_open()
        if self._sent[0] != order.version:
            self._sent = order.version, self._put(weights)
        self._give(worker, order, self._sent[1])

    def wait(self, seconds: float) -> Iterator[tuple[int, Piece]]:
        """Yield what is ready, see ``pool.RemoteWorkers``."""
        self._check_open()
        refs = {running.result: index for index, running in self._running.items()}
        if not refs:
            time.sleep(seconds)
            return
        ready, _ = self._ray.wait(list(refs), num_returns=1, timeout=seconds)
        if ready:  # and whatever else is
            ready, _ = self._ray.wait(list(refs), num_returns=len(refs), timeout=0)
        for ref in ready:
            index = refs[ref]
            try:
                piece = self._result(index, ref)
            except WorkerCrashed as error:
                self._replace(index, str(error))
                continue
            self._started[index] = True
            del self._running[index]
            yield index, piece
        self._ask_silent()

    def metrics(self) -> Metrics:
        """Return metrics since the last call."""
        restarts, self._restarts = self._restarts, 0
        if time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            before, self._spilled = self._spilled, ray_session.spilled_bytes(self._ray)
            if self._spilled > before:
                self._events.append(
                    {"event": "pool_spilled", "bytes": self._spilled - before}
                )
        return {
            "pool/restarts": Sum(restarts),
            "pool/spilled_bytes": Max(self._spilled),
        }

    def events(self) -> list[dict[str, Any]]:
        """Return events since the last call."""
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """End all actors, and Ray if it was started for them."""
        self._closed = True
        self.closing.close()

    def end_actors(self) -> None:
        """End all actors, which close their environments first if they can."""
        with contextlib.suppress(Exception):
            asked = [actor.close.remote() for actor in self._actors]
            self._ray.wait(asked, num_returns=len(asked), timeout=_CLOSE)
        for actor in self._actors:
            with contextlib.suppress(Exception):
                self._ray.kill(actor)

    def _check_open(self) -> None:
        if self._closed:
            raise Stopped("the workers were closed")

    def _create(self) -> Any:
        settings = self._settings
        cores = max(1, math.floor(settings.cpus))
        kind = self._kind.options(
            num_cpus=settings.cpus,
            memory=settings.memory or None,
            resources=dict(settings.resources) or None,
            scheduling_strategy=settings.scheduling,
        )
        return kind.remote(wire.versions(), self._job, cores)

    def _result(self, index: int, ref: Any) -> Any:
        """Return what a worker answered, or raise what it raised.

        Raises:
          WorkerCrashed: if it is gone; it can be replaced.
        """
        errors = self._ray.exceptions
        try:
            return self._ray.get(ref, timeout=self._settings.start_seconds)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, UserError):
                raise cause from None
            if isinstance(cause, EnvError):
                raise EnvError(f"worker {index} of the pool: {cause}") from None
            raise RuntimeError(f"worker {index} of the pool failed:\n{cause}") from None
        except errors.RayError as error:
            if self._closed:
                raise Stopped("the workers were closed") from None
            raise WorkerCrashed(_reason(error), worker=index) from None

    def _put(self, weights: Arrays) -> Any:
        try:
            return self._ray.put(weights)
        except self._ray.exceptions.RayError as error:
            raise UserError(
                f"weights cannot be put into Ray's memory ({first_line(error)}); give "
                "Ray more memory (ray start --object-store-memory)"
            ) from None

    def _give(self, index: int, order: Order, weights: Any) -> None:
        has, self._has[index] = self._has[index], order.version
        needed = None if has == order.version else weights
        result = self._actors[index].collect.remote(order, needed)
        # The weights are kept for a replacement, which has none.
        self._running[index] = _Running(order, weights, result, time.monotonic())

    def _ask_silent(self) -> None:
        """Ask workers that have been at their order for a while whether they live."""
        now, settings = time.monotonic(), self._settings
        for index, running in list(self._running.items()):
            silent = now - running.since
            if running.question is None:
                if silent > min(_ASK, settings.answer_seconds):
                    question = self._actors[index].alive.remote()
                    self._running[index] = running._replace(
                        since=now, question=question
                    )
                continue
            if self._ray.wait([running.question], timeout=0)[0]:
                # Also if it is dead: then its order fails, too.
                self._started[index] = True
                self._running[index] = running._replace(since=now, question=None)
                continue
            started = self._started[index]
            limit = settings.answer_seconds if started else settings.start_seconds
            if silent > limit:
                self._replace(index, f"it did not answer for {silent:.0f} s")

    def _replace(self, index: int, reason: str) -> None:
        """Replace a worker; the new one does its order.

        Raises:
          WorkerCrashed: if it was replaced too often.
        """
        running, made = self._running[index], self._replaced[index]
        if made >= self._settings.max_restarts:
            raise WorkerCrashed(
                f"worker {index} of the pool failed after {made} restarts, the limit "
                f"(max_restarts): {reason}",
                worker=index,
            )
        with contextlib.suppress(Exception):
            self._ray.kill(self._actors[index])
        self._replaced[index] += 1
        self._restarts += 1
        self._events.append(
            {"event": "pool_worker_restarted", "worker": index, "reason": reason}
        )
        self._actors[index] = self._create()
        self._has[index], self._started[index] = -1, False
        other = worker.replaced_seed(running.order.start, made + 1)
        self._give(index, running.order._replace(start=other), running.weights)


class _Running(NamedTuple):
    """Order that a worker is executing."""

    order: Order
    weights: Any  # reference to the weights
    result: Any  # reference to the rollout
    since: float  # time of the order, or of the question or answer after it
    question: Any = None  # reference to the answer whether it lives, or None


def start(settings: RayPool, job: worker.Job) -> tuple[RayWorkers, dict[str, Any]]:
    """Start actors, see ``pools.start``."""
    sent = wire.pickled(job)
    if settings.address is None:
        resources.check_memory(settings.workers, settings.memory)
    with contextlib.ExitStack() as stack:
        cpus = max(os.cpu_count() or 1, math.ceil(settings.workers * settings.cpus))
        ray = stack.enter_context(ray_session.session(settings.address, cpus))
        _check_room(ray, settings)
        workers = RayWorkers(ray, settings, sent)
        stack.callback(workers.end_actors)
        facts = workers.facts()
        workers.closing = stack.pop_all()
    return workers, facts


def _check_room(ray: Any, settings: RayPool) -> None:
    """Refuse more actors than the cluster has room for."""
    needs = {"CPU": settings.cpus, "memory": settings.memory, **settings.resources}
    free = ray.available_resources()
    for name, amount in needs.items():
        needed = settings.workers * amount
        if needed > free.get(name, 0):
            raise UserError(
                f"{settings.workers} workers need {needed:g} {name}, but the cluster "
                f"has {free.get(name, 0):g} free; lower --pool_workers, or change "
                f"{name} of the pool"
            )


def _controlled(ray: Any) -> type:
    """Return the class of actors, in which one thread only answers questions."""
    control = ray.method(concurrency_group="control")
    return type("RayActor", (RayActor,), {"alive": control(RayActor.alive)})


def _reason(error: BaseException) -> str:
    """Return one line about a dead actor."""
    known = [line.strip() for line in str(error).splitlines() if "exit" in line.lower()]
    text = known[0] if known else first_line(error)
    detail = text.partition("Worker exit detail:")[2] or text
    return detail.strip().partition(". ")[0][:200]
