"""Asynchronous experience (GA3C, Babaeizadeh et al. 2017): predictors in threads.

A predictor is a thread with environments and a policy of its own. It selects actions
for those environments that are ready, whatever the updates do meanwhile, and puts the
rollouts of a program into a bounded queue. Updates take as many as they need. So the
policy that acted may be older than the one that learns from it; the capacity of the
queue bounds by how much. Between two of its programs, a predictor copies the newest
weights, so no policy mixes two versions. A program collects several rollouts, because a
call from Python costs as much as a small update.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfagents_batch import metrics, nest, seeds
from tfagents_batch.devices.placement import HOST, Placement
from tfagents_batch.graph import arrays
from tfagents_batch.interfaces import Algorithm, Env, Policy
from tfagents_batch.metrics import Interval, Mean, Metrics
from tfagents_batch.sources import predicting
from tfagents_batch.sources.async_rollout import AsyncRollout
from tfagents_batch.sources.bounded_queue import POLL, BoundedQueue, Counts, Stopping
from tfagents_batch.sources.predicting import PredictorChoice, PredictorNumbers
from tfagents_batch.tracing import anew
from tfagents_batch.types import Collected, Trajectory

_LOG = logging.getLogger("tfagents_batch")
_JOIN = 5.0  # seconds that closing waits for the threads


class PredictorRollouts(NamedTuple):
    """Rollouts that a predictor collected in one program."""

    trajectory: Trajectory  # K rollouts, [K, T, n]
    number: int  # K
    metrics: Metrics  # of what was collected, merged
    steps: int  # number of transitions
    version: int  # version of the policy that acted


class Predictors:
    """Threads that collect rollouts for a queue; an ``experience.HostSource``.

    Threads start with the first ``fetch`` and run until ``close``, also while the run
    evaluates and saves. An exception in a thread is raised by the next ``fetch``.

    Args:
      envs: environments of each predictor, a ``ProcessEnv`` with as many groups as
        workers.
      algorithm: creates the policies.
      config: checked ``queue_settings.QueueSettings``.
      seed: seed of environments and actions.
      info: info columns to report, see ``metrics.episode_info_metrics``.
      placement: the devices; predictors act on the one that collects.

    Attributes:
      parts: source of each predictor.
    """

    def __init__(
        self,
        envs: Sequence[Env],
        algorithm: Algorithm,
        config: Any,
        seed: int,
        info: Sequence[str] = (),
        placement: Placement = HOST,
    ):
        self.envs, self._placement, self._config = tuple(envs), placement, config
        self._seed, self.parts = seed, []
        with placement.collecting():
            for index, env in enumerate(envs):
                wait_for = config.waits_for(env.spec.num_envs, env.num_workers)
                start = (seed + 7919 * index) % 2**31
                actor = algorithm.make_policy()
                self.parts.append(
                    AsyncRollout(env, actor, config.length, wait_for, start, info)
                )
            self._published = algorithm.make_policy()
        self._refresh = [_copy(part.actor, self._published) for part in self.parts]
        self._choice = PredictorChoice(config, self.parts[0], len(self.parts), seed)
        self._collect = [{} for _ in self.parts]  # programs, by environments that act
        self._publish: Any = None
        counts = self._choice.values["rollouts_per_update"]
        self._join = {count: predicting.joiner(count) for count in counts}
        # Every size of an update comes once at the start, so nothing is compiled later.
        self._untried = list(counts)
        self._lock = threading.Lock()  # guards the published weights and the failure
        self._version, self._step = 0, 0
        self._stopping, self._counts = threading.Event(), Counts()
        self._queue = BoundedQueue(config.room, self._stopping)
        self._failed: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._warm: set[int] = set()  # predictors that have run all their programs

    @property
    def compilable(self) -> bool:
        """True if predictors can run under XLA."""
        return all(part.compilable for part in self.parts)

    @property
    def numbers(self) -> PredictorNumbers:
        """Numbers in use."""
        return self._choice.numbers

    def start(self, compiled: bool) -> None:
        """Create the programs; ``compiled`` says whether XLA compiles them."""
        rollouts = self._config.rollouts(compiled)
        for part, programs in zip(self.parts, self._collect, strict=True):
            for rows in self._choice.values["predict_batch"]:
                programs[rows] = predicting.collector(part, rollouts, rows, compiled)

    def fetch(self, step: int) -> Collected:
        """Return rollouts for at least one update, see ``experience.HostSource``."""
        self._step = step
        if not self._threads:
            self._begin()
        count = self.numbers.rollouts_per_update
        if self._untried:
            count = self._untried.pop()
        parts: list[PredictorRollouts] = []
        try:
            while sum(part.number for part in parts) < count:
                part, most = self._queue.get(), self._config.max_lag
                if most is not None and self._version - part.version > most:
                    self._counts.add(dropped=part.steps)
                else:
                    parts.append(part)
        except Stopping:
            self.check()
            raise
        trajectory = parts[0].trajectory
        if count > 1 or len(parts) > 1:
            with self._placement.collecting():
                trajectory = self._join[count]([part.trajectory for part in parts])
        merged = Interval()
        for part in parts:
            merged.add(metrics.to_host(part.metrics))
        steps = sum(part.steps for part in parts)
        updates = nest.static_size(trajectory.steps.first)
        lag = sum((self._version - part.version) * part.steps for part in parts)
        self._counts.add(rows=steps, updates=updates, lag=lag)
        return Collected(steps, True, updates, merged.totals, trajectory)

    def publish(self, policy: Policy) -> None:
        """Offer the weights to the predictors."""
        if self._publish is None:
            self._publish = _copy(self._published, policy)
        with self._lock:
            self._publish()
            self._version = int(self._published.version)

    def report(self, seconds: float) -> Metrics:
        """Return metrics of a call that took ``seconds``, and choose new numbers."""
        numbers, counts = self.numbers, self._counts.take()
        steps, rows, updates, lag, dropped, waited = (
            counts.get(name, 0)
            for name in ("steps", "rows", "updates", "lag", "dropped", "waited")
        )
        offered = seconds * numbers.predictors
        if len(self._warm) == len(self.parts) and not self._untried and updates:
            self._choice.tuner.add(seconds, rows, updates, lag / rows)
        return {f"async/{name}": float(x) for name, x in numbers._asdict().items()} | {
            "async/predictions_per_second": Mean(steps, seconds),
            "async/predictor_wait": Mean(min(waited, offered), offered),
            "async/queued_transitions": float(self._queue.size),
            "async/dropped": Mean(dropped, dropped + rows),
        }

    def check(self) -> None:
        """Raise the exception that has ended a thread, if there is one."""
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        """End all threads."""
        self._stopping.set()
        if self._threads:
            for env in self.envs:
                env.stop()
        deadline = time.monotonic() + _JOIN
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if self._threads:
            names = ", ".join(thread.name for thread in self._threads)
            _LOG.warning("still in a call of TensorFlow after %g s: %s", _JOIN, names)

    def named_variables(self) -> dict[str, tf.Variable]:
        """Return no variables: what is in flight is not saved."""
        return {}

    def traces(self) -> int:
        """Return how often a program was traced; more than once is a fault."""
        programs = [*self._refresh, *self._join.values()]
        programs += [x for by_rows in self._collect for x in by_rows.values()]
        return max(program.experimental_get_tracing_count() for program in programs)

    def _begin(self) -> None:
        for index in range(len(self.parts)):
            name = f"tfagents_batch-predictor-{index}"
            thread = threading.Thread(
                target=self._guarded, args=(index,), name=name, daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _guarded(self, index: int) -> None:
        try:
            with self._placement.collecting():  # device scopes are per thread
                self._predict(index)
        except Stopping:
            pass
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Keep the first error, and end all threads."""
        with self._lock:
            if self._failed is None and not self._stopping.is_set():
                self._failed = error
            self._stopping.set()
        for env in self.envs:
            env.stop()

    def _predict(self, index: int) -> None:
        """Collect rollouts, with the newest weights at the start of each program."""
        part, programs, calls = self.parts[index], self._collect[index], 0
        untried, agents = list(programs), part.batch
        while not self._stopping.is_set():
            numbers = self.numbers
            if index >= numbers.predictors and not untried:
                self._stopping.wait(POLL)
                part.env.check()
                continue
            rows = untried.pop() if untried else numbers.predict_batch
            if numbers.agents != agents:
                part.active.assign(numbers.agents)
                agents = numbers.agents
            with self._lock:
                version = self._version
                self._refresh[index]()
            call = calls * len(self.parts) + index
            seed = int(seeds.iteration_seed(self._seed, call, "predict"))
            calls += 1
            now = arrays.argument(self._step, tf.int64)
            try:
                collected = programs[rows](arrays.argument(seed), now)
            finally:
                part.env.check()  # its failure says more than that of the program
            trajectory, measured, steps = collected
            if not untried:
                self._warm.add(index)
            steps = int(steps)
            if steps:
                number = nest.static_size(trajectory.steps.first)
                item = PredictorRollouts(trajectory, number, measured, steps, version)
                waited = self._queue.put(item, steps, part.env.check)
                self._counts.add(steps=steps, waited=waited)


def _copy(policy: Policy, published: Policy) -> Any:
    """Return a program that copies the weights of one policy to another."""
    return tf.function(anew(lambda: policy.assign_from(published)), autograph=False)
