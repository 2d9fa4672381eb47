"""Custom gradients that are freed together with the program that uses them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.framework import ops

_REGISTRY = ops.gradient_registry._registry


def custom(function: Callable) -> Callable:
    """Decorate like ``tf.custom_gradient``, without keeping the traced graph in memory.

    TensorFlow registers the gradient of every call until the process ends, and each
    gradient refers to its graph: tens of megabytes per training run. Here the graph
    owns the gradient, and the registry has only a weak reference to it.

    Args:
      function: takes tensors; returns a nest of tensors and a function from their
        gradients to those of its arguments, as for ``tf.custom_gradient``.
    """
    differentiable = tf.custom_gradient(function)

    @functools.wraps(function)
    def call(*arguments):
        results = differentiable(*arguments)
        if not tf.executing_eagerly():
            _move_to_graph(tf.nest.flatten(results)[0].op)
        return results

    return call


def _move_to_graph(operation: tf.Operation) -> None:
    """Make the outermost graph of an operation own the operation's gradient."""
    name = operation.get_attr("_gradient_op_type").decode()
    entry = _REGISTRY[name]
    gradient = entry["type"]
    program = operation.graph
    outer = getattr(program, "outer_graph", None)
    while outer is not None and isinstance(outer, tf.__internal__.FuncGraph):
        # The body of a loop is traced again when its gradient is computed.
        program, outer = outer, outer.outer_graph
    program._own_gradients = [*getattr(program, "_own_gradients", ()), gradient]
    found = weakref.ref(gradient, lambda _: _REGISTRY.pop(name, None))

    def call(operation, *upstream):
        gradient = found()
        assert gradient is not None  # its owner is a graph that is in use
        return gradient(operation, *upstream)

    entry["type"] = call
