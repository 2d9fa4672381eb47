"""Call of a traced function as one operation of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def single_call(function: Callable) -> Callable:
    """Return a function that adds another one to a graph as a single operation.

    Use it for the outermost body of an XLA program. TensorFlow searches a body's loops
    and nested functions for constants before it compiles, and keeps a copy of each
    graph until the process ends: about 40 MB for a run of PPO. It does not search an
    operation whose type is the function itself.

    Args:
      function: function from nests of tensors to nests of tensors.

    Returns:
      A function with the same arguments and results. Outside a graph it calls
      ``function``.
    """
    traced = tf.function(function, autograph=False)

    def call(*arguments: Any) -> Any:
        if tf.executing_eagerly():
            return function(*arguments)
        specs = tf.nest.map_structure(
            lambda x: tf.TensorSpec(x.shape, x.dtype), arguments
        )
        body = traced.get_concrete_function(*specs)
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
