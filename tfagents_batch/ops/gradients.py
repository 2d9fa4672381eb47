"""Gradients of one's own, which end with the program that they were written for."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.framework import ops

_REGISTRY = ops.gradient_registry._registry


def custom(function: Callable) -> Callable:
    """``tf.custom_gradient`` that does not keep the graph it was traced in.

    TensorFlow registers the gradient of every call under a name of its own, for as
    long as the process lives, and the gradient holds all of the graph, tens of
    megabytes for a training. Here the graph holds the gradient, and the registry
    refers to it weakly.

    Args:
      function: of tensors, returns a nest of tensors and a function from their
        gradients to those of its arguments, as ``tf.custom_gradient`` expects.
    """
    differentiable = tf.custom_gradient(function)

    @functools.wraps(function)
    def call(*arguments):
        results = differentiable(*arguments)
        if not tf.executing_eagerly():
            _entrust(tf.nest.flatten(results)[0].op)
        return results

    return call


def _entrust(operation: tf.Operation) -> None:
    """Give the gradient of an operation to the program that it is a part of."""
    name = operation.get_attr("_gradient_op_type").decode()
    entry = _REGISTRY[name]
    gradient = entry["type"]
    program = operation.graph
    outer = getattr(program, "outer_graph", None)
    while isinstance(outer, tf.__internal__.FuncGraph):
        # For the body of a loop is made anew when its gradient is wanted.
        program, outer = outer, outer.outer_graph
    program._own_gradients = [*getattr(program, "_own_gradients", ()), gradient]
    found = weakref.ref(gradient, lambda _: _REGISTRY.pop(name, None))
    entry["type"] = lambda operation, *upstream: found()(operation, *upstream)
