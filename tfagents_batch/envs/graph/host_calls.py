"""Calls of Python code as ops: ``tf.numpy_function``, with tensors in and out.

Shared by environments that store their state outside the graph, behind a token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf
from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

from tfagents_batch import spaces
from tfagents_batch.envs.processes.portable_backend import Portable
from tfagents_batch.envs.shared.step_batch import SEED_MASK, StepBatch, stale
from tfagents_batch.errors import UserError
from tfagents_batch.types import EnvSpec, Nest, TimeStep


class HostCalls:
    """Calls of the portable backend as ``tf.numpy_function``, not compilable by XLA.

    The error of compiled programs gives the reason why the native one is not used.
    """

    def __init__(self, engine: Portable, outputs: Sequence[tf.TensorSpec], reason: str):
        self._engine = engine
        self._outputs = outputs
        self._reason = reason
        self._token = 0

    def init(self, seed: tf.Tensor) -> list[tf.Tensor]:
        """Start every environment with an integer seed; return the outputs."""
        return self._call(self._host_init, [seed])

    def step(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Step with token and action leaves; return the outputs."""
        return self._call(self._host_step, inputs)

    def ok(self, token: tf.Tensor) -> tf.Tensor:
        """Return bool ``[]``, false after a stop or a failure."""
        ok = tf.numpy_function(lambda _: np.bool_(self._engine.ok), [token], tf.bool)
        return tf.ensure_shape(ok, [])

    def _call(self, function: Callable, inputs: Sequence) -> list[tf.Tensor]:
        if in_xla():
            raise UserError(
                f"this environment cannot be stepped under jit_compile=True: "
                f"{self._reason}; compile the update only, and step the environment "
                "in a tf.function without jit_compile"
            )
        dtypes = [spec.dtype for spec in self._outputs]
        results: Any = tf.numpy_function(function, inputs, dtypes)
        for tensor, spec in zip(results, self._outputs, strict=True):
            tensor.set_shape(spec.shape)
        return results

    def _host_init(self, seed: np.ndarray) -> list[np.ndarray]:
        return self._flat(self._engine.reset(int(seed) & SEED_MASK))

    def _host_step(self, token: np.ndarray, *action: np.ndarray) -> list[np.ndarray]:
        if int(token) != self._token:  # then step returns failed rows
            self._engine.give_up(stale(int(token), self._token))
        return self._flat(self._engine.step(action))

    def _flat(self, batch: StepBatch) -> list[np.ndarray]:
        self._token = (self._token + 1) % 2**31
        return [np.asarray(self._token, np.int32), *batch.flat()]


def outputs(spec: EnvSpec) -> list[tf.TensorSpec]:
    """Return specs of the token and of an environment's outputs, in their order."""
    batch = [spec.num_envs]
    observation = spaces.leaves(spec.observation_space)
    columns = ["float32", "bool", "bool", "bool", *spec.info.values()]
    return [
        tf.TensorSpec([], tf.int32),
        *(tf.TensorSpec([*batch, *leaf.shape], leaf.dtype) for leaf in observation),
        *(tf.TensorSpec(batch, dtype) for dtype in columns),
    ]


def timestep(spec: EnvSpec, flat: Sequence[tf.Tensor]) -> TimeStep:
    """Pack an environment's outputs, without the token, into a TimeStep."""
    count = len(flat) - 4 - len(spec.info)
    observation = spaces.pack(spec.observation_space, flat[:count])
    info = dict(zip(spec.info, flat[count + 4 :], strict=True))
    return TimeStep(observation, *flat[count : count + 4], info=info)


def seed_tensor(seed: int | tf.Tensor) -> tf.Tensor:
    """Convert the seed of ``init`` to an integer scalar, or raise a UserError."""
    if isinstance(seed, (int, np.integer)):
        seed = int(seed) & SEED_MASK
        seed = tf.constant(seed - (seed >> 63 << 64), tf.int64)
    seed = tf.convert_to_tensor(seed)
    if not (seed.dtype.is_integer and seed.shape.is_compatible_with([])):
        raise UserError(
            f"seed is {seed.dtype.name} {seed.shape}; expected an integer scalar"
        )
    return scalar(seed)


def token(state: Any) -> tf.Tensor:
    """Convert the state of an environment outside the graph to int32 ``[]``."""
    return scalar(tf.convert_to_tensor(state, tf.int32))


def groups(numbers: int | Sequence[int] | tf.Tensor) -> tf.Tensor:
    """Convert the numbers of groups of environments to int32 ``[k]``."""
    tensor = tf.convert_to_tensor(numbers)
    count = tensor.shape.num_elements()
    if not tensor.dtype.is_integer or count is None or tensor.shape.rank > 1:
        raise UserError(
            f"groups is {tensor.dtype.name} {tensor.shape}; expected the number of a "
            "group, or a vector of them with a length known when the function is "
            "traced: tf.ensure_shape(groups, [k])"
        )
    return tf.reshape(tf.cast(tensor, tf.int32), [count])


def scalar(x: tf.Tensor) -> tf.Tensor:
    return x if x.shape.rank == 0 else tf.ensure_shape(x, [])


def in_xla() -> bool:
    """Return whether XLA will compile the function that is being traced."""
    graph = tf.compat.v1.get_default_graph()
    return not tf.executing_eagerly() and bool(GraphOrParentsInXlaContext(graph))


def flat_actions(spec: EnvSpec, action: Nest) -> list[tf.Tensor]:
    """Return the leaves of an action, checked as far as static shapes allow."""
    space = spec.action_space
    try:
        flat = spaces.flatten(space, action)
    except (KeyError, IndexError, TypeError) as error:
        raise UserError(
            f"the action does not have the structure of its space {space} "
            f"({type(error).__name__}: {error})"
        ) from None
    pairs = zip(flat, spaces.leaves(space), strict=True)
    return [_action_tensor(x, leaf, spec.num_envs) for x, leaf in pairs]


def _action_tensor(value: Any, leaf: spaces.Leaf, num_envs: int) -> tf.Tensor:
    dtype = tf.as_dtype(leaf.dtype)
    continuous = isinstance(leaf.space, gymnasium.spaces.Box) and dtype.is_floating
    if not tf.is_tensor(value):
        value = np.asarray(value)
    tensor = tf.convert_to_tensor(value)
    name = spaces.field(leaf.path, "action")
    if not (tensor.dtype.is_floating if continuous else tensor.dtype.is_integer):
        expected = leaf.dtype if continuous else "integers"
        raise UserError(f"{name} is {tensor.dtype.name}; {leaf.space} takes {expected}")
    shape = [num_envs, *leaf.shape]
    if not tensor.shape.is_compatible_with(shape):
        raise UserError(
            f"{name} has shape {tensor.shape.as_list()}; expected {shape}, one row per "
            "environment"
        )
    return tf.cast(tensor, dtype) if continuous else tensor
