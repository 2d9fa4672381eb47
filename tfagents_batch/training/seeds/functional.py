"""Call a function with other values of the Keras variables that it uses."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfagents_batch.graph import loops


def call(
    variables: Sequence[keras.Variable],
    values: Sequence[tf.Tensor],
    function: Callable[..., Any],
    *args: Any,
) -> tuple[list[tf.Tensor], Any]:
    """Compute ``function(*args)`` with other values; the variables do not change.

    Under ``tf.vectorized_map`` every copy has its own values. (All copies would
    silently share the variables themselves.)

    Args:
      variables: all variables that the function reads or assigns.
      values: the value of each variable.
      function: it must use loops and branches of ``graph.loops`` around assignments.
      *args: arguments of the function.

    Returns:
      The values after the call, and the result of the call.
    """
    store = _VariableStore(list(variables))
    with store.holding(values), loops.use(store):
        result = function(*args)
        return store.read(), result


class _VariableStore:
    """Variable store for ``loops.use``, by Keras' stateless scope."""

    def __init__(self, variables: list[keras.Variable]):
        self._variables = variables

    def read(self) -> list[tf.Tensor]:
        return [tf.convert_to_tensor(variable.value) for variable in self._variables]

    def write(self, values: Sequence[tf.Tensor]) -> None:
        for variable, value in zip(self._variables, values, strict=True):
            variable.assign(value)

    @contextlib.contextmanager
    def holding(self, values: Sequence[tf.Tensor]) -> Iterator[None]:
        with keras.StatelessScope(list(zip(self._variables, values, strict=True))):
            yield
