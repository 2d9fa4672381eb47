"""Gymnasium environments as ops: the ``Env`` protocol over workers and their memory."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import spaces
from tfagents_batch.envs.graph import host_calls
from tfagents_batch.envs.graph.host_calls import HostCalls
from tfagents_batch.envs.native import op
from tfagents_batch.envs.processes import (
    backends,
    interrupts,
    restart_budget,
    worker_restart,
)
from tfagents_batch.envs.processes.in_process import InProcess
from tfagents_batch.envs.processes.native_backend import Native
from tfagents_batch.envs.processes.portable_backend import Portable
from tfagents_batch.envs.processes.restart_budget import RestartBudget
from tfagents_batch.envs.processes.stragglers import Stragglers
from tfagents_batch.envs.processes.workers import Workers
from tfagents_batch.envs.shared import arguments, cpus, layout, step_batch
from tfagents_batch.envs.shared.failures import Outcome
from tfagents_batch.envs.shared.options import (
    AUTO,
    NATIVE,
    PORTABLE,
    RESTART,
    EnvOptions,
)
from tfagents_batch.envs.vector.batch_stepper import Steppable
from tfagents_batch.envs.worker import construction
from tfagents_batch.errors import Stopped, UserError
from tfagents_batch.types import EnvSpec, Nest, TimeStep

_LOG = logging.getLogger("tfagents_batch")


class ProcessEnv:
    """Batch of Gymnasium environments in worker processes, usable inside graphs.

    The state is an int32 token that orders the calls; use each token once. ``init`` and
    ``step`` never abort a program. After a failure all rows are marked invalid: they
    repeat their last valid observation, with reward 0 and both ``first`` and
    ``truncated`` true. Then ``ok`` is false, and the exception is raised by the first
    of these: the end of an eager call, ``tfb.function``, ``check``, or leaving the
    ``with`` block. After a plain ``tf.function``, call ``check``. With
    ``on_fault="restart"`` only the rows of the failed environment are invalid, and a
    new environment replaces it, which ``events`` reports.

    With the native backend the ops are custom calls. They run in eager code, in graphs
    and under ``jit_compile=True``, where a whole rollout is one program. With the
    portable backend they are ``tf.numpy_function``s, which give the same transitions
    more slowly and not under ``jit_compile=True``.

    Environment i is seeded by its index, and rows are ordered by index, so the number
    of workers affects only the speed. One thread steps; any thread may stop it.

    >>> import gymnasium
    >>> with ProcessEnv([lambda: gymnasium.make("CartPole-v1")] * 4, 2) as env:
    ...     state, timestep = env.init(seed=1)
    ...     state, timestep = env.step(state, tf.zeros([4], tf.int32))
    >>> timestep.observation.shape
    TensorShape([4, 4])

    Args:
      constructors: functions without arguments that create one ``gymnasium.Env`` each;
        lambdas and classes of ``__main__`` or a notebook work. Or an existing batch,
        which is stepped in this process; see ``graph.vector_env``.
      num_workers: number of processes; 0 steps in this process; None uses one per
        core, but at most one per environment.
      backend: "native" (needs a C++ compiler at first use), "portable", or
        "auto", native if available. Environments in this process are portable.
        The variable ``TFAGENTS_BATCH_BACKEND=portable`` disables the native backend.
      workers_reason: why there are that many workers, for logs.
      options: further fields of ``shared.options.EnvOptions``.

    Attributes:
      spec: EnvSpec.
      num_workers: number of processes in use.
      workers_reason: as above.
      num_groups: number of groups of environments for ``send`` and ``receive``.
      backend: backend in use, "native" or "portable".
      reason: why the portable backend is used; "" with the native one.
      compilable: whether ``jit_compile=True`` is possible: with the native backend.
      engine: what steps the environments, ``Native`` or ``Portable``.
      hub: number of the native hub in programs; None with the portable backend.
      owner: thread that owns environments of this process, see ``function.call``; None
        with workers.
      words: control words of each worker, see ``shared.layout``; none after closing.
      constructor: of the first environment; None for a batch that exists already.

    Raises:
      EnvError: if an environment cannot be created.
      UserError: if an argument is wrong, spaces disagree, or memory is short.
    """

    constructor: Callable[[], gymnasium.Env] | None = None

    def __init__(
        self,
        constructors: Sequence[Callable[[], gymnasium.Env]] | Steppable,
        num_workers: int | None = None,
        *,
        backend: str = AUTO,
        workers_reason: str = "",
        **options: Any,
    ):
        chosen = EnvOptions(backend=backend, **options)
        if isinstance(constructors, Steppable):
            num_envs, num_workers = constructors.num_envs, 0
        else:
            constructors = list(constructors)
            arguments.callables(constructors)
            num_envs = len(constructors)
        count = arguments.worker_count(num_workers, num_envs, chosen.groups)
        groups = arguments.groups(chosen.groups, num_envs, count)
        if not isinstance(constructors, Steppable):
            self.constructor = constructors[0]
        self.num_workers, self.num_groups = count, groups
        self.workers_reason = workers_reason
        self._library, self.reason = backends.choose(backend, count)
        backends.refuse_groups(groups, self.reason)
        self._budget: RestartBudget | None = None
        if chosen.on_fault == RESTART:
            limits = chosen.max_restarts, chosen.restart_period_seconds
            self._budget = RestartBudget(num_envs, *limits)
        self._reported_lost = np.zeros(num_envs, np.int64)
        self._counted: dict[str, float] = {}
        self._reported: dict[str, float] = {}
        self._stragglers = Stragglers()
        cores = cpus.available()
        if count > len(cores):
            text = "%d worker processes share %d cores: fewer workers are usually "
            text += "faster, unless environments mostly wait"
            _LOG.warning(text, count, len(cores))
        self._waiting = cpus.choose(count, cores, chosen.pin_workers)
        self._workers: Workers | InProcess
        if isinstance(constructors, Steppable) or not count:
            self._workers = InProcess(constructors, self._budget)
        else:
            variables = dict(chosen.worker_variables or {})
            self._workers = Workers(constructors, count, groups, variables)
        self.owner = self._workers.owner
        self._finalizer = weakref.finalize(self, self._workers.close)
        try:
            self._construct(chosen, num_envs)
        except OSError as error:  # not an environment's: that is a failure
            self._finalizer()
            raise UserError(
                f"{count} worker processes cannot be started: {error.strerror}; raise "
                "the limit of open files (ulimit -n) or of processes (ulimit -u), or "
                "use fewer workers"
            ) from error
        except BaseException:
            self._finalizer()
            raise
        self.hub, self.compilable = self.engine.handle, not self.reason
        self.backend = NATIVE if self.compilable else PORTABLE
        interrupts.ENVS.add(self)
        wanted = count > 0 and backend != PORTABLE
        backends.log_choice(num_envs, count, self.reason, wanted)

    def init(self, seed: int | tf.Tensor) -> tuple[tf.Tensor, TimeStep]:
        """Start every environment. Row i depends on ``(seed, i)`` only.

        Args:
          seed: int or integer scalar tensor.

        Returns:
          int32 token, TimeStep of ``[B, ...]``.
        """
        seed = host_calls.seed_tensor(seed)
        token, *results = self._call(self._calls.init, seed)
        return token, host_calls.timestep(self.spec, results)

    def step(self, state: tf.Tensor, action: Nest) -> tuple[tf.Tensor, TimeStep]:
        """Step every row; a row with an ended episode ignores its action and restarts.

        Args:
          state: token of the previous ``init`` or ``step``.
          action: nest of ``[B, ...]`` with the structure of the action space; integers
            of any width for discrete spaces. Box actions are clipped to finite bounds.

        Returns:
          int32 token, TimeStep of ``[B, ...]``.

        Raises:
          UserError: if an action has the wrong structure, shape or dtype.
        """
        inputs = [host_calls.token(state), *self._flat(action, self.spec.num_envs)]
        token, *results = self._call(self._calls.step, inputs)
        return token, host_calls.timestep(self.spec, results)

    def send(
        self, state: tf.Tensor, action: Nest, groups: int | Sequence[int] | tf.Tensor
    ) -> tf.Tensor:
        """Start a step of some groups of environments, without waiting for it.

        Row r belongs to group ``r // (B / num_groups)``. While one group steps, the
        policy can select actions for another one: double buffering. After ``init``
        every group is free. Needs the native backend.

        Args:
          state: token of the previous call.
          action: as for ``step``, for the rows of the groups, group after group.
          groups: number of a free group, or int32 ``[k]`` of distinct free groups.

        Returns:
          int32 token.
        """
        calls = self._native_calls()
        groups = host_calls.groups(groups)
        rows = (groups.shape[0] or 0) * self.spec.num_envs // self.num_groups
        flat = self._flat(action, rows)
        inputs = [host_calls.token(state), groups, *flat]
        return self._call(calls.send, inputs)[0]

    def receive(
        self,
        state: tf.Tensor,
        groups: int | Sequence[int] | tf.Tensor | None = None,
        count: int = 1,
    ) -> tuple[tf.Tensor, tf.Tensor, TimeStep]:
        """Wait for groups that ``send`` started.

        Args:
          state: token of the previous call.
          groups: as for ``send``; None takes the groups that are ready first, so runs
            differ, because the order depends on timing.
          count: number of groups to wait for if ``groups`` is None.

        Returns:
          int32 token, int32 ``[k]`` groups, and a TimeStep of ``[k * B / num_groups,
          ...]``: their rows, group after group.
        """
        calls = self._native_calls()
        inputs = [host_calls.token(state)]
        if groups is not None:
            inputs.append(host_calls.groups(groups))
            count = inputs[1].shape[0] or 0
        if not 1 <= count <= self.num_groups:
            raise UserError(
                f"receive waits for {count} groups; expected 1 to {self.num_groups}, "
                "the number passed to the environment as groups="
            )
        rows = count * self.spec.num_envs // self.num_groups
        spec = self.spec._replace(num_envs=rows)
        outputs = host_calls.outputs(spec)
        outputs.insert(1, tf.TensorSpec([count], tf.int32))
        token, ready, *results = self._call(calls.receive, inputs, outputs)
        return token, ready, host_calls.timestep(spec, results)

    def ok(self, state: tf.Tensor) -> tf.Tensor:
        """Return bool ``[]``; false after a stop or failure: discard the iteration."""
        return self._calls.ok(host_calls.token(state))

    def check(self) -> None:
        """Raise the failure since the last check, if any, and close the workers.

        Raises:
          EnvError, UserError: for a failure, or for the use of a closed environment.
          Stopped: after ``stop``.
        """
        engine = self.engine
        engine.review()
        if self._workers.stopping and engine.history is None and engine.fault is None:
            engine.fault = Stopped("stop() ended the stepping")
        if error := self._take_fault():
            self.close()
            raise error

    def stop(self) -> None:
        """Make the current step and all later ones return at once.

        Safe from any thread and from signal handlers.
        """
        self._workers.stop()

    def close(self) -> None:
        """End the workers and free memory within two seconds.

        Idempotent; any thread may call it.
        """
        interrupts.ENVS.discard(self)
        self.engine.end("the environments are closed")
        self._finalizer()
        self._count()
        self.words, self._memory, self._timing = [], None, None
        self.engine.release()

    def __enter__(self) -> ProcessEnv:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        fault = self._take_fault()
        self.close()
        if kind is None and fault is not None:
            raise fault

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the workers; none for in-process stepping."""
        return [worker.pid for worker in self._workers.workers]

    def metrics(self) -> dict[str, float]:
        """Return counters since the last call: ``env/*``, ``system/*``, ``time/*``."""
        now = {
            **self.engine.counters(),
            **self._count(),
            "env/restarts": self._budget.count if self._budget else 0,
        }
        new = {key: now[key] - self._reported.get(key, 0) for key in now}
        self._reported, metrics = now, {}
        if spaces.has_box(self.spec.action_space):
            share = new["clipped"] / max(new["total"], 1)
            metrics["env/action_clipped_fraction"] = share
        metrics |= {name: float(x) for name, x in new.items() if "/" in name}
        metrics["time/env_step_ms"] = 1000 * new["seconds"] / max(new["steps"], 1)
        if (timing := self._timing) is not None:  # None while another thread closes it
            metrics |= self._stragglers.measure(timing)
        sizes = [worker.resident_bytes() for worker in self._workers.workers]
        if any(sizes):
            metrics["system/worker_mb"] = max(sizes) / 2**20
        return metrics

    def events(self) -> list[dict[str, Any]]:
        """Return failures and restarts of environments since the last call.

        Returns:
          dicts of ``RestartBudget.events``. A restart also has ``lost_steps``, the
          number of failed steps of its rows.
        """
        if self._budget is None:
            return []
        events, lost = self._budget.events(), self.engine.lost()
        for event in events:
            if event["event"] == restart_budget.RESTARTED:
                rows = event["envs"]
                event["lost_steps"] = int((lost - self._reported_lost)[rows].sum())
                self._reported_lost[rows] = lost[rows]
        return events

    def _construct(self, chosen: EnvOptions, num_envs: int) -> None:
        """Create the environments, lay out their memory, and make the ops."""
        workers = self._workers
        _raise_first(workers.construct(chosen.construct_seconds))
        construction.same_spaces(workers.facts)
        observed, acted = (
            spaces.from_json(workers.facts[0][name])
            for name in ("observation_space", "action_space")
        )
        limits = {fact["max_episode_steps"] for fact in workers.facts}
        limit = limits.pop() if len(limits) == 1 else None
        info = layout.STATISTICS | arguments.info_columns(chosen.info_keys)
        self.spec = EnvSpec(num_envs, observed, acted, info, limit)
        leaves = spaces.leaves(observed), spaces.leaves(acted)
        if not self.reason:
            self.reason = backends.unsuited(*leaves, len(info))
            backends.refuse_groups(self.num_groups, self.reason)
        lines = max(self.num_workers, 1)
        plan = layout.make_layout(*leaves, info, num_envs, lines, self.num_groups)
        passed = chosen.for_workers() | {
            "poll_microseconds": self._waiting.worker,
            "cores": self._waiting.cores,
            "restarts": None if self._budget is None else [0] * num_envs,
            "native": not self.reason,
        }
        self._memory, attached = workers.attach(plan, passed)
        _raise_first(attached)
        parts = plan, self._memory, acted
        seconds = chosen.reset_seconds, chosen.step_seconds
        self._actions, outputs = leaves[1], host_calls.outputs(self.spec)
        self._calls: op.Calls | HostCalls
        self.engine: Native | Portable
        if self.reason or isinstance(workers, InProcess):
            self.engine = Portable(workers, *parts, info, seconds)
            why = f"it uses the portable backend, because {self.reason}"
            self._calls = HostCalls(self.engine, outputs, why)
        else:
            waits = self._waiting.hub, self._budget is not None
            self.engine = Native(self._library, workers, *parts, seconds, *waits)
            self._calls = op.Calls(self.engine.handle, outputs)
        if self._budget is not None:
            self._budget.give_up = self.engine.give_up
            if isinstance(workers, Workers):
                worker_restart.heal(workers, self._budget, self.engine)
        attached.log_notes()
        self.words = [layout.control(self._memory, i) for i in range(lines)]
        self._timing = layout.views(plan, self._memory).timing

    def _take_fault(self) -> BaseException | None:
        """Return the failure not raised yet, or None; a failure ends everything."""
        error = self.engine.fault
        if error is not None:
            self.engine.fault = None
            env = getattr(error, "env", None)
            where = "" if env is None else f" in env {env}"
            self.engine.end(
                f"the environments are closed after {type(error).__name__}{where}"
            )
        return error

    def _count(self) -> dict[str, float]:
        """Return the counters; after closing, their last values."""
        if words := self.words:
            self._counted = {
                "env/observation_out_of_bounds": sum(
                    line[layout.OUT_OF_BOUNDS] for line in words
                ),
                "env/not_finite": sum(line[layout.NOT_FINITE] for line in words),
                "env/stale_replies": self._workers.stale,
            }
        return self._counted

    def _flat(self, action: Nest, rows: int) -> list[tf.Tensor]:
        """Return the leaves of an action, with the static shapes of native calls."""
        flat = host_calls.flat_actions(self.spec._replace(num_envs=rows), action)
        if not isinstance(self.engine, Native):
            return flat
        known = all(x.shape.is_fully_defined() for x in flat)
        if not known and not host_calls.in_xla():  # XLA knows all shapes
            check = functools.partial(self.engine.check_shapes, rows)
            flat = tf.numpy_function(check, flat, [x.dtype for x in flat])
        leaves = zip(flat, self._actions, strict=True)
        return [tf.ensure_shape(x, [rows, *leaf.shape]) for x, leaf in leaves]

    def _native_calls(self) -> op.Calls:
        if isinstance(self._calls, op.Calls):
            return self._calls
        raise UserError(
            "send and receive need the native backend, which is not available: "
            f"{self.reason}; use step"
        )

    def _call(self, call: Callable, *inputs: Any) -> list[tf.Tensor]:
        """Make a call; if it is an eager one, raise its failure at once."""
        if not tf.executing_eagerly():
            return call(*inputs)
        with interrupts.guard():
            results = call(*inputs)
        self.check()
        return results


def _raise_first(outcome: Outcome) -> None:
    if outcome.faults:
        raise step_batch.exception(outcome.faults)
    if outcome.stopped:
        raise Stopped("stop() ended the construction")
