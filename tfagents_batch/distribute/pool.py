"""Rollouts of workers elsewhere, as a host source: one batch ahead, in order.

Workers belong to an engine, Ray or Spark. A pool gives them orders and joins what comes
back into trajectories for updates, in one of three ways:

* in turn: every update waits for rollouts of the newest weights;
* ahead: workers collect during the update before;
* free: whoever is ready is taken, and gets its next order at once.

The version of the policy that acted travels with each rollout. A worker that dies is
replaced within a budget. Its order is given to the replacement, so nothing is learned
twice and nothing is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from tfagents_batch import metrics, seeds
from tfagents_batch.distribute import wire
from tfagents_batch.distribute.wire import Arrays, Order, Piece
from tfagents_batch.distribute.worker import start_seed
from tfagents_batch.errors import Stopped
from tfagents_batch.interfaces import Algorithm, Policy
from tfagents_batch.metrics import Mean, Metrics
from tfagents_batch.sources.bounded_queue import Counts
from tfagents_batch.sources.metrics import of_trajectory
from tfagents_batch.tracing import anew
from tfagents_batch.training.assembly import joined_counters
from tfagents_batch.types import Collected, EnvSpec, RemotePlan, Trajectory

REPLACED = "replaced"  # in behavior: bool [T, B], see ``types.RemotePlan``
_CLOSE = 5.0  # seconds that closing waits for a fetch
_POLL = 0.2  # seconds after which a waiting thread looks whether it should stop


class RemoteWorkers(Protocol):
    """Workers of an engine, started; calls come from one thread, but for ``close``."""

    count: int

    def submit(self, worker: int, order: Order, weights: Arrays) -> None:
        """Give a worker that has none an order.

        ``weights`` are those of ``order.version``, by name; they are not sent again to
        a worker that has them.
        """
        ...

    def wait(self, seconds: float) -> Iterator[tuple[int, Piece]]:
        """Yield what is ready now, or becomes ready in that time.

        Workers that died or do not answer are replaced, and do their order again.

        Raises:
          EnvError: if a worker failed for good.
        """
        ...

    def metrics(self) -> Metrics:
        """Return metrics since the last call, such as ``pool/restarts``."""
        ...

    def events(self) -> list[dict[str, Any]]:
        """Return events since the last call."""
        ...

    def close(self) -> None:
        """End all workers; it may be called several times."""
        ...


class RemoteEnvs:
    """The environments of a pool, with one spec, as those who manage a run see them."""

    compilable = False

    def __init__(self, workers: RemoteWorkers, spec: EnvSpec):
        self.workers, self.spec = workers, spec
        self._events: list[dict[str, Any]] = []
        self._counters: list[dict[str, float]] = []
        self._stopped = threading.Event()

    @property
    def stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopped.is_set()

    def heard(self, worker: int, piece: Piece) -> None:
        """Keep events and counters that came with a rollout."""
        first = worker * (self.spec.num_envs // self.workers.count)
        for event in piece.events:
            if "envs" in event:
                event = event | {"envs": [first + i for i in event["envs"]]}
            self._events.append(event | {"pool_worker": worker})
        self._counters.append(piece.counters)

    def events(self) -> list[dict[str, Any]]:
        """Return events of environments and workers since the last call."""
        events, self._events = self._events, []
        return events + self.workers.events()

    def metrics(self) -> dict[str, float]:
        """Return counters since the last call, without sizes of other machines."""
        counters, self._counters = self._counters, []
        joined = joined_counters(counters)
        return {k: x for k, x in joined.items() if not k.startswith("system/")}

    def check(self) -> None:
        """Do nothing: the source raises what a worker raised."""

    def stop(self) -> None:
        """Make a waiting ``fetch`` end; any thread may call it."""
        self._stopped.set()

    def close(self) -> None:
        """End all workers."""
        self.stop()
        self.workers.close()


class RemoteRollouts:
    """Host source of the rollouts of a pool; an ``experience.HostSource``.

    The seed is that of actions. The info columns to report are those of
    ``metrics.episode_info_metrics``.
    """

    compilable = True  # nothing of it runs in this process

    def __init__(
        self,
        envs: RemoteEnvs,
        algorithm: Algorithm,
        plan: RemotePlan,
        seed: int,
        info: Sequence[str] = (),
    ):
        self.envs, self.actor = (envs,), algorithm.policy
        self._envs, self._workers, self._plan = envs, envs.workers, plan
        self._seed, self._info = seed, tuple(info)
        sizes = plan.length, plan.streams
        self._part = wire.outline(envs.spec, algorithm.policy, *sizes)
        self._measure = tf.function(anew(self._metrics), autograph=False)
        self._published = threading.Condition()
        self._weights: tuple[int, Arrays] = (-1, {})
        self._publications, self._fetches, self._orders = 0, 0, 0
        self._idle = list(range(self._workers.count))
        self._ready: list[tuple[int, Piece]] = []
        self._fetching = threading.Lock()
        self._failed: BaseException | None = None
        self._counts = Counts()

    def start(self, compiled: bool) -> None:
        """Do nothing: workers decide for themselves what they compile."""

    def fetch(self, step: int) -> Collected:
        """Return the rollouts of one update, see ``experience.HostSource``."""
        try:
            with self._fetching:
                return self._fetch(step)
        except BaseException as error:
            self._failed = self._failed or error
            raise

    def publish(self, policy: Policy) -> None:
        """Offer new weights to the workers."""
        weights = int(policy.version.numpy()), wire.weights(policy)
        with self._published:
            self._weights = weights
            self._publications += 1
            self._published.notify_all()

    def report(self, seconds: float) -> Metrics:
        """Return metrics since the last report, in calls that took ``seconds``."""
        if not seconds:
            return {}  # the time between two calls is counted with the next one
        counts = self._counts.take()
        number = counts.get("rollouts", 0)
        measured = {
            "pool/collect_seconds": Mean(counts.get("seconds", 0.0), number),
            "pool/lag": Mean(counts.get("lag", 0), number),
        }
        return measured | self._workers.metrics()

    def check(self) -> None:
        """Raise the exception that has ended it, if there is one."""
        if self._failed is not None:
            raise self._failed

    def traces(self) -> int:
        """Return how often the program of metrics was traced."""
        return max(self._measure.experimental_get_tracing_count(), 1)

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return no variables: environments elsewhere start again."""
        return {}

    def outline(self) -> Trajectory:
        """Return the specs of the trajectory of an update, ``[T, B]``."""
        spec, plan = self._envs.spec, self._plan
        sizes = plan.length, plan.streams * plan.needed
        return wire.outline(spec, self.actor, *sizes)

    def close(self) -> None:
        """End a ``fetch`` that waits, and then all workers."""
        self._envs.stop()
        ended = self._fetching.acquire(timeout=_CLOSE)
        try:
            self._envs.close()
        finally:
            if ended:
                self._fetching.release()

    def _fetch(self, step: int) -> Collected:
        weights = self._await_weights()
        idle, self._idle = self._idle, []
        for worker in idle:
            self._submit(worker, step, weights)
        ready, needed = self._ready, self._plan.needed
        while len(ready) < needed:
            if self._envs.stopped:
                raise Stopped("the run was asked to stop")
            for worker, piece in self._workers.wait(_POLL):
                ready.append((worker, piece))
                self._envs.heard(worker, piece)
                if self._plan.order == "free":
                    self._submit(worker, step, self._newest())
                else:
                    self._idle.append(worker)
        taken, self._ready = ready[:needed], ready[needed:]
        self._fetches += 1
        self._idle.sort()
        return self._join(sorted(taken, key=lambda pair: pair[1].order.number))

    def _await_weights(self) -> tuple[int, Arrays]:
        """Wait for the first weights; in turn, for those after the update before.

        Returns:
          Their version, and arrays by name: one version for all orders of a fetch.
        """
        in_turn = self._plan.order == "in turn"
        needed = self._fetches + 1 if in_turn else 1
        with self._published:
            while self._publications < needed:
                if self._envs.stopped:
                    raise Stopped("the run was asked to stop")
                self._published.wait(_POLL)
            return self._weights

    def _newest(self) -> tuple[int, Arrays]:
        with self._published:
            return self._weights

    def _submit(self, worker: int, step: int, newest: tuple[int, Arrays]) -> None:
        version, weights = newest
        number, self._orders = self._orders, self._orders + 1
        seed = seeds.iteration_seed(self._seed, number, "pool/actions")
        order = Order(number, seed, start_seed(self._seed, worker), step, version)
        self._workers.submit(worker, order, weights)

    def _join(self, taken: list[tuple[int, Piece]]) -> Collected:
        """Return the rollouts of one update side by side."""
        parts, acted, latest = [], [], self._newest()[0]
        for worker, piece in taken:
            part = wire.unpack(self._part, piece.arrays, f"worker {worker}")
            version = piece.order.version
            acted.append(version)
            parts.append(_marked(part, piece.first) if self._plan.marks else part)
            self._counts.add(seconds=piece.seconds, lag=latest - version, rollouts=1)
        trajectory = wire.joined(parts, acted)
        measured = self._measure(tf.nest.map_structure(lambda x: x[0], trajectory))
        steps, numbers = int(measured.steps), metrics.to_host(measured.metrics)
        return Collected(steps, True, 1, numbers, trajectory)

    def _metrics(self, trajectory: Trajectory) -> Collected:
        measured = of_trajectory(trajectory, self._envs, self._info)
        return Collected.whole(trajectory, tf.constant(True), measured)._replace(
            trajectory=()
        )


def _marked(part: Trajectory, first: bool) -> Trajectory:
    replaced = np.full(part.steps.first[1:].shape, first)
    return part._replace(behavior=part.behavior | {REPLACED: replaced})
