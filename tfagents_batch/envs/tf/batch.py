"""A batch of environments written in TensorFlow, behind the ``Env`` protocol."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from tfagents_batch import nest, seeds, spaces
from tfagents_batch.envs.graph import host_calls
from tfagents_batch.envs.shared import arguments, observation_rules
from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.shared.validation import kind_of
from tfagents_batch.envs.tf.environment import TensorEnv
from tfagents_batch.errors import UserError, first_line
from tfagents_batch.tracing import anew
from tfagents_batch.types import EnvSpec, Nest, TimeStep

_RESET = "a tuple (state, observation)"
_STEP = "a tuple (state, observation, reward, terminated)"


class BatchState(NamedTuple):
    """Complete state of a batch; a run can continue exactly from a checkpoint of it."""

    inner: Nest  # [B, ...], states of the environments
    key: tf.Tensor  # int32 [B, 2], random key of each row
    draws: tf.Tensor  # int32 [B], number of keys derived from it
    last: tf.Tensor  # bool [B], the episode has ended: the next step restarts
    return_: tf.Tensor  # f32 [B], of the episode so far
    length: tf.Tensor  # int32 [B], of the episode so far


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
        _check_attributes(env)
        self.env = env
        self.spec = EnvSpec(
            num_envs,
            env.observation_space,
            env.action_space,
            {"episode_return": "float32", "episode_length": "int32"},
            getattr(env, "max_episode_steps", None),
        )
        # Separate tf.functions, so that eager calls do not vectorise every time.
        self._init = tf.function(anew(self._init_rows), autograph=False)
        self._step = tf.function(anew(self._step_rows), autograph=False)
        if check:
            self._check()

    def init(self, seed: int | tf.Tensor) -> tuple[BatchState, TimeStep]:
        """Start an episode in every row. Row i depends on ``(seed, i)`` only."""
        return self._init(host_calls.seed_tensor(seed))

    def step(self, state: BatchState, action: Nest) -> tuple[BatchState, TimeStep]:
        """Step every row, or restart it if its episode has ended."""
        flat = host_calls.flat_actions(self.spec, action)
        space = self.spec.action_space
        fitted = [
            _fit(x, leaf) for x, leaf in zip(flat, spaces.leaves(space), strict=True)
        ]
        return self._step(state, spaces.pack(space, fitted))

    def ok(self, state: BatchState) -> tf.Tensor:
        """Return bool ``[]``, always true, because nothing here can fail."""
        return tf.constant(True)

    def close(self) -> None:
        """Do nothing, because there is nothing to free."""

    def __enter__(self) -> TensorBatch:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def _check(self) -> None:
        row, rows = _check_env(self.env), [self.spec.num_envs]
        with tf.__internal__.FuncGraph("check").as_default():
            inner = nest.map(
                lambda x: _input(tf.TensorSpec([*rows, *x.shape], x.dtype)), row
            )
            counts, off = tf.zeros(rows, tf.int32), tf.zeros(rows, tf.bool)
            key, returns = tf.zeros([*rows, 2], tf.int32), tf.zeros(rows)
            action = nest.map(_input, nest.specs(self.spec.action_space, rows))
            # It resets, too.
            self._step_rows(
                BatchState(inner, key, counts, off, returns, counts), action
            )

    def _init_rows(self, seed: tf.Tensor) -> tuple[BatchState, TimeStep]:
        batch = self.spec.num_envs
        words = seeds.words([batch, 2], seeds.key(seed, "environments"))
        key = tf.cast(words, tf.int32)  # row i depends on (seed, i) only
        zeros, off = tf.zeros([batch], tf.int32), tf.zeros([batch], tf.bool)
        inner, observation = self._map(lambda key: _reset(self.env, key), key)
        state = BatchState(inner, key, zeros, off, tf.zeros([batch]), zeros)
        return state, _timestep(state, observation, tf.zeros([batch]), ~off, off, off)

    def _step_rows(
        self, state: BatchState, action: Nest
    ) -> tuple[BatchState, TimeStep]:
        first, draws = state.last, state.draws + 1
        key = seeds.fold(state.key, draws)

        def row(inner, action, key, first):
            # Rows cannot branch, so every row computes a reset and a step. The step of
            # a restarting row is unused but must be valid: it starts from the reset.
            fresh = _reset(self.env, key)
            start = nest.where(first, fresh[0], inner)
            inner, observation, reward, terminated = _step(self.env, start, action, key)
            chosen = nest.where(first, fresh, (inner, observation))
            return *chosen, tf.where(first, 0.0, reward), terminated & ~first

        rows = state.inner, action, key, first
        inner, observation, reward, terminated = self._map(row, *rows)
        length = tf.where(first, 0, state.length + 1)
        return_ = tf.where(first, 0.0, state.return_ + reward)
        limit = self.spec.max_episode_steps
        truncated = tf.zeros_like(first) if limit is None else length >= limit
        last = terminated | truncated
        state = BatchState(inner, state.key, draws, last, return_, length)
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


def _timestep(state: BatchState, *columns: Nest) -> TimeStep:
    info = {"episode_return": state.return_, "episode_length": state.length}
    return TimeStep(*columns, info=info)


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


# ---- the functions of one environment


def _check_attributes(env: TensorEnv) -> None:
    """Refuse spaces or a time limit that cannot be used."""
    for space in (env.observation_space, env.action_space):
        spaces.leaves(space)
    limit = getattr(env, "max_episode_steps", None)
    if limit is not None:
        name = f"{type(env).__name__}.max_episode_steps"
        if not isinstance(limit, int | np.integer):
            raise UserError(f"{name} is {limit!r}; expected a positive int or None")
        arguments.at_least(name, limit, 1)


def _check_env(env: TensorEnv) -> Nest:
    """Refuse an object that is not a valid ``TensorEnv`` with a UserError.

    Traces in a separate graph, because after a ``tf.function`` TensorFlow's threads can
    no longer be set. Other exceptions of ``reset`` and ``step`` pass through. Returns
    the state of one environment, of symbolic tensors.
    """
    name = type(env).__name__
    with tf.__internal__.FuncGraph("check").as_default():
        key = _input(tf.TensorSpec([2], tf.int32))
        state, _ = _trace(f"{name}.reset", _reset, env, key)
        action = nest.map(_input, nest.specs(env.action_space))
        again, *_ = _trace(
            f"{name}.step", _step, env, nest.map(_input, state), action, key
        )
        _check_same(f"{name}.step", again, state)
        return state


def _input(like: tf.Tensor | tf.TensorSpec) -> tf.Tensor:
    return tf.compat.v1.placeholder(like.dtype, like.shape)


def _reset(env: TensorEnv, key: tf.Tensor) -> tuple[Nest, Nest]:
    """Call ``env.reset``; return a nest of tensors and a checked observation."""
    where = f"{type(env).__name__}.reset"
    returned = env.reset(key)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise UserError(f"{where} returned {kind_of(returned)}; expected {_RESET}")
    state, observation = returned
    return nest.map(tf.convert_to_tensor, state), _observation(where, env, observation)


def _step(
    env: TensorEnv, state: Nest, action: Nest, key: tf.Tensor
) -> tuple[Nest, Nest, tf.Tensor, tf.Tensor]:
    """Call ``env.step``; return its values in the dtypes of a ``TimeStep``."""
    where = f"{type(env).__name__}.step"
    returned = env.step(state, action, key)
    if not isinstance(returned, tuple) or len(returned) != 4:
        raise UserError(f"{where} returned {kind_of(returned)}; expected {_STEP}")
    state, observation, reward, terminated = returned
    return (
        nest.map(tf.convert_to_tensor, state),
        _observation(where, env, observation),
        _scalar(f"{where}: reward", reward, tf.float32),
        _scalar(f"{where}: terminated", terminated, tf.bool),
    )


def _trace(where: str, function: Callable, *inputs: Any) -> Any:
    """Call a function; raise a ``UserError`` if it branches in Python on a tensor."""
    try:
        return function(*inputs)
    except (TypeError, tf.errors.OperatorNotAllowedInGraphError) as error:
        if "bool" not in str(error):
            raise
        raise UserError(
            f"{where} branches in Python on the value of a tensor, which cannot be "
            f"traced; use tf.where ({first_line(error)})"
        ) from error


def _observation(where: str, env: TensorEnv, observation: Nest) -> Nest:
    space, fitted = env.observation_space, []

    def fit(leaf: spaces.Leaf, value: Any, name: str) -> Iterable[Defect]:
        fitted.append(_convert(name, value, tf.as_dtype(leaf.dtype)))
        return observation_rules.shape_defects(leaf, fitted[-1].shape.as_list(), name)

    name = f"{where}: observation"
    for defect in observation_rules.observation_defects(space, observation, fit, name):
        raise UserError(str(defect))
    return spaces.pack(space, fitted)


def _scalar(name: str, value: Any, dtype: tf.DType) -> tf.Tensor:
    tensor = _convert(name, value, dtype)
    if tensor.shape.rank != 0:
        raise UserError(
            f"{name} has shape {tensor.shape.as_list()}; expected one {dtype.name}, "
            "because the function steps one environment"
        )
    return tensor


def _convert(name: str, value: Any, dtype: tf.DType) -> tf.Tensor:
    """Convert to a tensor of a dtype; integers become floats, never the reverse."""
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype == dtype:
        return tensor
    integral = tensor.dtype.is_integer and (dtype.is_integer or dtype.is_floating)
    if not integral and not (tensor.dtype.is_floating and dtype.is_floating):
        raise UserError(f"{name} is {tensor.dtype.name}; expected {dtype.name}")
    return tf.cast(tensor, dtype)


def _check_same(where: str, state: Nest, expected: Nest) -> None:
    try:
        tf.nest.assert_same_structure(state, expected)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{where}: the state has another structure than after reset "
            f"({first_line(error)}); expected the same"
        ) from error
    for x, y in zip(nest.flatten(state), nest.flatten(expected), strict=True):
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            raise UserError(
                f"{where}: a tensor of the state is {x.dtype.name} {x.shape}, but "
                f"{y.dtype.name} {y.shape} after reset; expected the same"
            )
