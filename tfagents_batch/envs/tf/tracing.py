"""Trace an environment's functions and check them before use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from tfagents_batch import nest, spaces
from tfagents_batch.envs.shared import arguments, observation_rules
from tfagents_batch.envs.shared.failures import Defect
from tfagents_batch.envs.shared.validation import kind_of
from tfagents_batch.envs.tf.environment import TensorEnv
from tfagents_batch.errors import UserError, first_line
from tfagents_batch.types import Nest


def check_attributes(env: TensorEnv) -> None:
    """Refuse spaces or a time limit that cannot be used."""
    for space in (env.observation_space, env.action_space):
        spaces.leaves(space)
    limit = getattr(env, "max_episode_steps", None)
    if limit is not None:
        name = f"{type(env).__name__}.max_episode_steps"
        if not isinstance(limit, int | np.integer):
            raise UserError(f"{name} is {limit!r}; expected a positive int or None")
        arguments.at_least(name, limit, 1)


def check(env: TensorEnv) -> None:
    """Refuse an object that is not a valid ``TensorEnv``.

    Traces in a separate graph, because after a ``tf.function`` TensorFlow's threads can
    no longer be set.

    Raises:
      UserError: if ``reset`` or ``step`` return wrong values, or branch in Python
        on a tensor. Their other exceptions pass through.
    """
    name = type(env).__name__
    with tf.__internal__.FuncGraph("check").as_default():
        key = _input(tf.TensorSpec([2], tf.int32))
        state, _ = _trace(f"{name}.reset", reset, env, key)
        action = nest.map(_input, nest.specs(env.action_space))
        again, *_ = _trace(
            f"{name}.step", step, env, nest.map(_input, state), action, key
        )
        _check_same(f"{name}.step", again, state)


def _input(like: tf.Tensor | tf.TensorSpec) -> tf.Tensor:
    return tf.compat.v1.placeholder(like.dtype, like.shape)


def reset(env: TensorEnv, key: tf.Tensor) -> tuple[Nest, Nest]:
    """Call ``env.reset``; return a nest of tensors and a checked observation."""
    where = f"{type(env).__name__}.reset"
    returned = env.reset(key)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise UserError(f"{where} returned {kind_of(returned)}; expected {_RESET}")
    state, observation = returned
    return nest.map(tf.convert_to_tensor, state), _observation(where, env, observation)


def step(
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


_RESET = "a tuple (state, observation)"
_STEP = "a tuple (state, observation, reward, terminated)"


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
        fitted.append(_fit(name, value, tf.as_dtype(leaf.dtype)))
        return observation_rules.shape_defects(leaf, fitted[-1].shape.as_list(), name)

    name = f"{where}: observation"
    for defect in observation_rules.observation_defects(space, observation, fit, name):
        raise UserError(str(defect))
    return spaces.pack(space, fitted)


def _scalar(name: str, value: Any, dtype: tf.DType) -> tf.Tensor:
    tensor = _fit(name, value, dtype)
    if tensor.shape.rank != 0:
        raise UserError(
            f"{name} has shape {tensor.shape.as_list()}; expected one {dtype.name}, "
            "because the function steps one environment"
        )
    return tensor


def _fit(name: str, value: Any, dtype: tf.DType) -> tf.Tensor:
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
