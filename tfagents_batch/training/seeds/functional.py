"""Functions of objects with Keras variables, as functions of the variables' values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfagents_batch.ops import carried


def call(
    variables: Sequence[keras.Variable],
    values: Sequence[tf.Tensor],
    function: Callable[..., Any],
    *args: Any,
) -> tuple[list[tf.Tensor], Any]:
    """``function(*args)`` with other values in the variables, which stay as they are.

    Under ``tf.vectorized_map`` every copy has values of its own. (Variables themselves
    would be shared by all copies there, without a word.)

    Args:
      variables: all that the function reads or assigns.
      values: of each.
      function: its loops and branches around assignments are those of ``ops.carried``.
      *args: of the function.

    Returns:
      The values after it, and what it returned.
    """
    keep = _Keep(list(variables))
    with keep.holding(values), carried.use(keep):
        result = function(*args)
        return keep.read(), result


class _Keep:
    """See ``carried.use``; by Keras' scope."""

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
