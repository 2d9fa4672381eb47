"""Functions of a program: called as one operation, and with custom gradients."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

from tfagents_batch import nest
from tfagents_batch.tracing import anew

_REGISTRY = ops.gradient_registry._registry


def single_call(function: Callable) -> Callable:
    """Return a function that adds another one to a graph as a single operation.

    Use it for the outermost body of an XLA program. TensorFlow searches a body's loops
    and nested functions for constants before it compiles, and keeps a copy of each
    graph until the process ends: about 40 MB for a run of PPO. It does not search an
    operation whose type is the function itself. Outside a graph, the function is called
    as it is.
    """
    traced = tf.function(function, autograph=False)

    def call(*arguments: Any) -> Any:
        if tf.executing_eagerly():
            return function(*arguments)
        body = traced.get_concrete_function(*nest.specs_of(arguments))
        graph = tf.compat.v1.get_default_graph()
        body.add_to_graph(graph)
        operation = graph.create_op(
            tf.compat.as_str(body.name),
            [*tf.nest.flatten(arguments), *body.captured_inputs],
            [x.dtype for x in body.outputs],
            name=function.__name__.strip("_"),
        )
        for result, known in zip(operation.outputs, body.outputs, strict=True):
            result.set_shape(known.shape)
        return tf.nest.pack_sequence_as(body.structured_outputs, operation.outputs)

    return call


def program(function: Callable, compiled: bool) -> Any:
    """Return a ``tf.function``, whose whole body XLA compiles if ``compiled``."""
    body = single_call(function) if compiled else function
    return tf.function(anew(body), jit_compile=compiled, autograph=False)


def custom_gradient(function: Callable) -> Callable:
    """Decorate like ``tf.custom_gradient``, without keeping the traced graph in memory.

    TensorFlow registers the gradient of every call until the process ends, and each
    gradient refers to its graph: tens of megabytes per training run. Here the graph
    owns the gradient, and the registry has only a weak reference to it.
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
    reference = weakref.ref(gradient, lambda _: _REGISTRY.pop(name, None))

    def call(operation, *upstream):
        gradient = reference()
        assert gradient is not None  # its owner is a graph that is in use
        return gradient(operation, *upstream)

    entry["type"] = call
