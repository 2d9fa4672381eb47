"""A batch of environments written in TensorFlow, behind the ``Env`` protocol."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import nest, seeds, spaces
from tfagents_batch.envs.graph import host_calls
from tfagents_batch.envs.tf import tracing
from tfagents_batch.envs.tf.environment import TensorEnv
from tfagents_batch.errors import UserError
from tfagents_batch.types import EnvSpec, Nest, TimeStep


class State(NamedTuple):
    """Complete state of a batch; a run can continue exactly from a checkpoint of it.

    Attributes:
      inner: nest of ``[B, ...]``, states of the environments.
      key: int32 ``[B, 2]``, random key of each row.
      draws: int32 ``[B]``, number of keys derived from it.
      last: bool ``[B]``, the episode has ended: the next step restarts.
      return_: f32 ``[B]``, return of the episode so far.
      length: i32 ``[B]``, length of the episode so far.
    """

    inner: Nest
    key: tf.Tensor
    draws: tf.Tensor
    last: tf.Tensor
    return_: tf.Tensor
    length: tf.Tensor


class TensorBatch:
    """Batch of ``num_envs`` copies of an environment, stepped by vectorised ops.

    It has no processes, no locks and nothing to close, so a whole training run can be
    one compiled program. Actions outside a Box are clipped to it. Other actions are
    not checked, because a compiled program cannot raise errors.

    Args:
      env: see ``TensorEnv``.
      num_envs: B.
      check: check first that the environment is a valid ``TensorEnv`` and can be
        vectorised, in about a second.

    Attributes:
      spec: EnvSpec.
      env: the given environment.
      compilable: True, because it runs under XLA.
      resumable: True, because its state is tensors, so a run can resume exactly.

    Raises:
      UserError: if the environment is not a valid ``TensorEnv``, or cannot be
        vectorised.
    """

    compilable = True
    resumable = True

    def __init__(self, env: TensorEnv, num_envs: int, check: bool = True):
        tracing.check_attributes(env)
        self.env = env
        self.spec = EnvSpec(
            num_envs,
            env.observation_space,
            env.action_space,
            {"episode_return": "float32", "episode_length": "int32"},
            getattr(env, "max_episode_steps", None),
        )
        # Separate tf.functions, so that eager calls do not vectorise every time.
        self._init = tf.function(self._init_rows, autograph=False)
        self._step = tf.function(self._step_rows, autograph=False)
        if check:
            self._check()

    def init(self, seed: int | tf.Tensor) -> tuple[State, TimeStep]:
        """Start an episode in every row. Row i depends on ``(seed, i)`` only."""
        return self._init(host_calls.seed_tensor(seed))

    def step(self, state: State, action: Nest) -> tuple[State, TimeStep]:
        """Step every row, or restart it if its episode has ended."""
        flat = host_calls.flat_actions(self.spec, action)
        space = self.spec.action_space
        fitted = [
            _fit(x, leaf) for x, leaf in zip(flat, spaces.leaves(space), strict=True)
        ]
        return self._step(state, spaces.pack(space, fitted))

    def ok(self, state: State) -> tf.Tensor:
        """Return bool ``[]``, always true, because nothing here can fail."""
        return tf.constant(True)

    def close(self) -> None:
        """Do nothing, because there is nothing to free."""

    def __enter__(self) -> TensorBatch:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def _check(self) -> None:
        tracing.check(self.env)
        with tf.__internal__.FuncGraph("check").as_default():
            state, _ = self._init_rows(tf.constant(0))
            action = nest.map(
                lambda spec: tf.zeros(spec.shape, spec.dtype),
                nest.specs(self.spec.action_space, [self.spec.num_envs]),
            )
            self._step_rows(state, action)

    def _init_rows(self, seed: tf.Tensor) -> tuple[State, TimeStep]:
        batch = self.spec.num_envs
        key = _keys(seed, batch)
        zeros, off = tf.zeros([batch], tf.int32), tf.zeros([batch], tf.bool)
        inner, observation = self._map(lambda key: tracing.reset(self.env, key), key)
        state = State(inner, key, zeros, off, tf.zeros([batch]), zeros)
        return state, _timestep(state, observation, tf.zeros([batch]), ~off, off, off)

    def _step_rows(self, state: State, action: Nest) -> tuple[State, TimeStep]:
        first, draws = state.last, state.draws + 1
        key = seeds.fold(state.key, draws)

        def row(inner, action, key, first):
            # Rows cannot branch, so every row computes a reset and a step. The step of
            # a restarting row is unused but must be valid: it starts from the reset.
            fresh = tracing.reset(self.env, key)
            start = nest.where(first, fresh[0], inner)
            inner, observation, reward, terminated = tracing.step(
                self.env, start, action, key
            )
            chosen = nest.where(first, fresh, (inner, observation))
            return *chosen, tf.where(first, 0.0, reward), terminated & ~first

        rows = state.inner, action, key, first
        inner, observation, reward, terminated = self._map(row, *rows)
        length = tf.where(first, 0, state.length + 1)
        return_ = tf.where(first, 0.0, state.return_ + reward)
        limit = self.spec.max_episode_steps
        truncated = tf.zeros_like(first) if limit is None else length >= limit
        last = terminated | truncated
        state = State(inner, state.key, draws, last, return_, length)
        flags = first, terminated, truncated
        return state, _timestep(state, observation, reward, *flags)

    def _map(self, function, *rows: Nest) -> Nest:
        """Apply a function of one row to all rows at once."""
        try:
            return tf.vectorized_map(
                lambda row: function(*row), rows, fallback_to_while_loop=False
            )
        except UserError:
            raise
        except ValueError as error:
            operation = re.search(r"defined for (\w+)", str(error))
            if operation is None:
                raise
            raise UserError(
                f"{type(self.env).__name__} uses {operation[1]}, which TensorFlow "
                "cannot vectorise; use other operations, and for random numbers those "
                "of tfagents_batch.seeds"
            ) from error


def _timestep(state: State, *columns: Nest) -> TimeStep:
    info = {"episode_return": state.return_, "episode_length": state.length}
    return TimeStep(*columns, info=info)


def _keys(seed: tf.Tensor, rows: int) -> tf.Tensor:
    """Return keys, int32 ``[rows, 2]``; row i depends on ``(seed, i)`` only."""
    words = seeds.words([rows, 2], seeds.key(seed, "environments"))
    return tf.cast(words, tf.int32)


def _fit(action: tf.Tensor, leaf: spaces.Leaf) -> tf.Tensor:
    """Cast an action to the space's dtype, and clip it to the bounds of a Box."""
    if isinstance(leaf.space, gymnasium.spaces.Box):
        # Clip before the cast, because the cast would wrap large values.
        dtype: Any = action.dtype.as_numpy_dtype
        limits = np.finfo(dtype) if action.dtype.is_floating else np.iinfo(dtype)
        low, high = (
            np.clip(bound, limits.min, limits.max).astype(dtype)
            if action.dtype.is_integer
            else bound.astype(dtype)
            for bound in (leaf.space.low, leaf.space.high)
        )
        action = tf.clip_by_value(action, low, high)
    # Discrete actions are int32 for every dtype of the space.
    return tf.cast(action, leaf.dtype)
