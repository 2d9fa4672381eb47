"""Gymnasium environments as ops: the ``Env`` protocol over a pool of workers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import tensorflow as tf

from tfagents_batch import spaces
from tfagents_batch.envs.graph import host_calls
from tfagents_batch.envs.native import op
from tfagents_batch.envs.processes import backends, interrupts
from tfagents_batch.envs.processes.pool import Pool
from tfagents_batch.envs.vector.batch_stepper import Steppable
from tfagents_batch.errors import UserError
from tfagents_batch.types import EnvSpec, Nest, TimeStep


class ProcessEnv:
    """Batch of Gymnasium environments in worker processes, usable inside graphs.

    The state is an int32 token that orders the calls; use each token once. ``init`` and
    ``step`` never abort a program. After a failure all rows are marked invalid, and
    ``ok`` is false. The exception is raised by the first of these: the end of an eager
    call, ``tfb.function``, ``check``, or leaving the ``with`` block. After a plain
    ``tf.function``, call ``check``. With ``on_fault="restart"`` only the rows of the
    failed environment are invalid, and a new environment replaces it.

    With the native backend the ops are custom calls. They run in eager code, in graphs
    and under ``jit_compile=True``, where a whole rollout is one program. With the
    portable backend they are ``tf.numpy_function``s, which give the same transitions
    more slowly and not under ``jit_compile=True``.

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
      options: fields of ``shared.options.PoolOptions``.

    Attributes:
      spec: EnvSpec.
      num_workers: number of processes in use.
      workers_reason: as above.
      num_groups: number of groups of environments for ``send`` and ``receive``.
      backend: backend in use, "native" or "portable".
      compilable: whether ``jit_compile=True`` is possible: with the native backend.
      hub: number of the native hub in programs; None with the portable backend.
      owner: thread that owns environments of this process, see ``function.call``; None
        with workers.

    Raises:
      EnvError: if an environment cannot be created.
      UserError: if an argument is wrong, spaces disagree, or memory is short.
    """

    def __init__(
        self,
        constructors: Sequence[Callable[[], gymnasium.Env]] | Steppable,
        num_workers: int | None = None,
        *,
        backend: str = backends.AUTO,
        workers_reason: str = "",
        **options: Any,
    ):
        options = {"backend": backend} | options
        pool = Pool(constructors, num_workers, **options)
        self._pool = pool
        self.owner = pool.owner
        self.compilable = not pool.reason
        self.backend = backends.NATIVE if self.compilable else backends.PORTABLE
        self.num_workers = pool.num_workers
        self.workers_reason = workers_reason
        self.num_groups = pool.num_groups
        self.spec = EnvSpec(
            pool.num_envs,
            pool.observation_space,
            pool.action_space,
            dict(pool.info),
            pool.max_episode_steps,
        )
        self._actions = spaces.leaves(pool.action_space)
        self._group_rows = pool.num_envs // pool.num_groups
        self._outputs = host_calls.outputs(self.spec)
        self.hub = pool.handle
        self._calls: Any
        if self.hub is not None:
            self._calls = op.Calls(self.hub, self._outputs)
        else:
            why = f"it uses the portable backend, because {pool.reason}"
            self._calls = host_calls.HostCalls(pool.engine, self._outputs, why)

    def init(self, seed: int | tf.Tensor) -> tuple[tf.Tensor, TimeStep]:
        """Start every environment. Row i depends on ``(seed, i)`` only.

        Args:
          seed: int or integer scalar tensor.

        Returns:
          int32 token, TimeStep of ``[B, ...]``.
        """
        results = self._call(
            self._calls.init, self._outputs, host_calls.seed_tensor(seed)
        )
        return results[0], _timestep(self.spec, results[1:])

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
        flat = host_calls.flat_actions(self.spec, action)
        if self.hub is not None:
            flat = self._shaped(flat, self.spec.num_envs)
        inputs = [host_calls.token(state), *flat]
        results = self._call(self._calls.step, self._outputs, inputs)
        return results[0], _timestep(self.spec, results[1:])

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
        self._need_native()
        chosen, count = _groups(groups)
        rows = count * self._group_rows
        flat = host_calls.flat_actions(self.spec._replace(num_envs=rows), action)
        inputs = [host_calls.token(state), chosen, *self._shaped(flat, rows)]
        return self._call(self._calls.send, self._outputs[:1], inputs)[0]

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
        self._need_native()
        inputs = [host_calls.token(state)]
        if groups is not None:
            chosen, count = _groups(groups)
            inputs.append(chosen)
        if not 1 <= count <= self.num_groups:
            raise UserError(
                f"receive waits for {count} groups; expected 1 to {self.num_groups}, "
                "the number passed to the environment as groups="
            )
        spec = self.spec._replace(num_envs=count * self._group_rows)
        outputs = host_calls.outputs(spec)
        outputs.insert(1, tf.TensorSpec([count], tf.int32))
        results = self._call(self._calls.receive, outputs, inputs, outputs)
        return results[0], results[1], _timestep(spec, results[2:])

    def ok(self, state: tf.Tensor) -> tf.Tensor:
        """Return bool ``[]``; false after a stop or failure: discard the iteration."""
        return self._calls.ok(host_calls.token(state))

    def check(self) -> None:
        """Raise the failure since the last check, if any, and close the workers.

        Raises:
          EnvError, UserError: for a failure, or for the use of a closed environment.
          Stopped: after ``stop``.
        """
        self._pool.check()

    def stop(self) -> None:
        """Make the current step and all later ones return at once; from any thread."""
        self._pool.stop()

    def close(self) -> None:
        """End the workers within two seconds; idempotent, from any thread."""
        self._pool.close()

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the workers; none for in-process stepping."""
        return self._pool.pids

    @property
    def words(self) -> list[Any]:
        """Return the control words of each worker, see ``shared.layout``."""
        return self._pool.words

    def metrics(self) -> dict[str, float]:
        """Return counters since the last call: ``env/*``, ``system/*``, ``time/*``."""
        return self._pool.metrics()

    def events(self) -> list[dict[str, Any]]:
        """Return failures and restarts since the last call, see ``Pool.events``."""
        return self._pool.events()

    def __enter__(self) -> ProcessEnv:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        fault = self._pool.take_fault()
        self.close()
        if kind is None and fault is not None:
            raise fault

    def _shaped(self, flat: list[tf.Tensor], rows: int) -> list[tf.Tensor]:
        """Give the leaves of an action the static shapes that native calls need."""
        known = all(x.shape.is_fully_defined() for x in flat)
        if not known and not host_calls.in_xla():  # XLA knows all shapes
            check = functools.partial(self._pool.engine.check_shapes, rows)
            flat = tf.numpy_function(check, flat, [x.dtype for x in flat])
        leaves = zip(flat, self._actions, strict=True)
        return [tf.ensure_shape(x, [rows, *leaf.shape]) for x, leaf in leaves]

    def _need_native(self) -> None:
        if self.hub is None:
            raise UserError(
                "send and receive need the native backend, which is not available: "
                f"{self._pool.reason}; use step"
            )

    def _call(
        self, call: Callable, outputs: Sequence[tf.TensorSpec], *inputs: Any
    ) -> list[tf.Tensor]:
        """Return tensors of known shapes; raise failures of an eager call at once."""
        if tf.executing_eagerly():
            with interrupts.guard():
                results = call(*inputs)
            self._pool.check()
        else:
            results = call(*inputs)
        for tensor, expected in zip(results, outputs, strict=True):
            tensor.set_shape(expected.shape)
        return results


def _timestep(spec: EnvSpec, flat: Sequence[tf.Tensor]) -> TimeStep:
    """Pack an environment's outputs, without the token, into a TimeStep."""
    count = len(flat) - 4 - len(spec.info)
    observation = spaces.pack(spec.observation_space, flat[:count])
    info = dict(zip(spec.info, flat[count + 4 :], strict=True))
    return TimeStep(observation, *flat[count : count + 4], info)


def _groups(groups: int | Sequence[int] | tf.Tensor) -> tuple[tf.Tensor, int]:
    """Return group numbers as int32 ``[k]``, and k."""
    tensor = tf.convert_to_tensor(groups)
    count = tensor.shape.num_elements()
    if not tensor.dtype.is_integer or count is None or tensor.shape.rank > 1:
        raise UserError(
            f"groups is {tensor.dtype.name} {tensor.shape}; expected the number of a "
            "group, or a vector of them with a length known when the function is "
            "traced: tf.ensure_shape(groups, [k])"
        )
    return tf.reshape(tf.cast(tensor, tf.int32), [count]), count
