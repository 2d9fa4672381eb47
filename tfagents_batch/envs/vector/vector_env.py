"""Environments that come as a batch already, as ops: the ``Env`` protocol."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from gymnasium.vector import AutoresetMode
from gymnasium.vector import VectorEnv as GymnasiumVectorEnv

from tfagents_batch.envs import host_calls
from tfagents_batch.envs.vector import gymnasium_batch
from tfagents_batch.envs.vector.vector_crew import Steppable
from tfagents_batch.envs.vector.vector_pool import VectorPool
from tfagents_batch.types import EnvSpec, Nest, TimeStep

_LOG = logging.getLogger("tfagents_batch")
_REASON = "its batch of environments is stepped in this process, by Python"
_COSTS = {
    AutoresetMode.SAME_STEP: "the first transition of every episode but the first of "
    "each row is lost",
    AutoresetMode.DISABLED: "one more reset and one more step for every episode but "
    "the first of each row are lost",
}


class VectorEnv:
    """A ``gymnasium.vector.VectorEnv`` or another batch, usable inside graphs.

    It is stepped in this process by ``tf.numpy_function`` ops, so not under
    ``jit_compile=True``, without deadlines, and a crash of it ends this process.
    Otherwise it behaves as ``ProcessEnv`` does: the state is an int32 token that
    orders the calls, each used once; after a fault rows come back invalid and ``ok``
    is false; the exception is raised by the end of an eager call, ``tfb.function``,
    ``check`` or leaving the ``with`` block.

    Environments of every autoreset mode appear as NEXT_STEP ones; what SAME_STEP and
    DISABLED lose by that is written in ``autoreset`` and counted in
    ``env/unused_steps``.

    >>> import gymnasium
    >>> with VectorEnv(gymnasium.make_vec("CartPole-v1", 4)) as env:
    ...     state, timestep = env.init(seed=1)
    ...     state, timestep = env.step(state, tf.zeros([4], tf.int32))
    >>> timestep.observation.shape
    TensorShape([4, 4])

    Args:
      env: a vector environment, a function without arguments that makes one, or
        another batch with the methods of ``vector_crew.Steppable``. It is closed with
        this object.
      autoreset_mode: of a vector environment whose metadata do not say.
      options: of ``VectorPool``: ``on_fault``, ``finite_check``, ``info_keys``.

    Attributes:
      spec: EnvSpec.
      compilable: False.

    Raises:
      EnvError: if the function raises.
      UserError: if it cannot be driven, with the reason.
    """

    compilable = False

    def __init__(
        self,
        env: GymnasiumVectorEnv | Callable[[], GymnasiumVectorEnv] | Steppable,
        *,
        autoreset_mode: AutoresetMode | str | None = None,
        **options: Any,
    ):
        if isinstance(env, GymnasiumVectorEnv) or not isinstance(env, Steppable):
            env = gymnasium_batch.make(env, autoreset_mode)
            if env.mode in _COSTS:
                text = (
                    "a vector environment restarts by %s: %s; NEXT_STEP loses nothing"
                )
                _LOG.warning(text, env.mode.name, _COSTS[env.mode])
        try:
            pool = VectorPool(env, **options)
        except BaseException:
            env.close(failed=False)
            raise
        self._pool = pool
        self.spec = EnvSpec(
            pool.num_envs,
            pool.observation_space,
            pool.action_space,
            dict(pool.info),
            pool.max_episode_steps,
        )
        self._outputs = host_calls.outputs(self.spec)
        self._host = host_calls.HostCalls(pool.engine, self._outputs, _REASON)

    def init(self, seed: int | tf.Tensor) -> tuple[tf.Tensor, TimeStep]:
        """Start every environment.

        Args:
          seed: int or integer scalar tensor.

        Returns:
          int32 token, TimeStep of ``[B, ...]``.
        """
        return self._run(self._host.init, host_calls.seed_tensor(seed))

    def step(self, state: tf.Tensor, action: Nest) -> tuple[tf.Tensor, TimeStep]:
        """Step every row; a row that was last ignores its action and restarts.

        Args:
          state: token of the previous ``init`` or ``step``.
          action: nest of ``[B, ...]`` as the action space is nested; integers of any
            width for discrete spaces. Box actions are clipped to finite bounds.

        Returns:
          int32 token, TimeStep of ``[B, ...]``.

        Raises:
          UserError: if an action has the wrong structure, shape or dtype.
        """
        inputs = [state, *host_calls.flat_actions(self.spec, action)]
        return self._run(self._host.step, inputs)

    def ok(self, state: tf.Tensor) -> tf.Tensor:
        """bool ``[]``: false after a stop or a fault: the iteration is void."""
        return self._host.ok(state)

    def check(self) -> None:
        """Raise what went wrong since the last check; the batch is closed then.

        Raises:
          EnvError, UserError: a fault, or the use of an environment that is closed.
          Stopped: after ``stop``.
        """
        self._pool.check()

    def stop(self) -> None:
        """Make all later steps return at once, any thread; one under way goes on."""
        self._pool.stop()

    def close(self) -> None:
        """Close the batch; idempotent."""
        self._pool.close()

    def metrics(self) -> dict[str, float]:
        """Counters since the last call: ``env/*`` and ``time/*``."""
        return self._pool.metrics()

    def events(self) -> list[dict[str, Any]]:
        """Environments that were replaced: none, a batch is not replaced."""
        return []

    def __enter__(self) -> VectorEnv:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        fault = self._pool.take_fault()
        self.close()
        if kind is None and fault is not None:
            raise fault

    def _run(self, call: Callable, inputs: Any) -> tuple[tf.Tensor, TimeStep]:
        return host_calls.run(self._pool, self.spec, self._outputs, call, inputs)
