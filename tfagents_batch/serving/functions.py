"""Functions of named tensors, with their variables as constants."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import (
    convert_variables_to_constants_v2,
)

from tfagents_batch.errors import SaveError, first_line

Tensors = Mapping[str, tf.Tensor]
Function = Callable[[Tensors], dict[str, tf.Tensor]]
Specs = Mapping[str, tf.TensorSpec]
Arrays = Mapping[str, np.ndarray]
Run = Callable[[Arrays], dict[str, np.ndarray]]


def positional(
    function: Function, specs: Specs
) -> tuple[tf.types.experimental.PolymorphicFunction, list[str]]:
    """Return a function of tensors in the order of ``specs``, and its outputs' names.

    Converters take the names of such a function's inputs from its signature, where
    names of the user's parts of observations may not be valid.
    """
    names = list(specs)
    signature = [
        tf.TensorSpec(x.shape, x.dtype, name=f"input_{i}")
        for i, x in enumerate(specs.values())
    ]
    outputs: list[str] = []

    def call(*tensors):
        results = function(dict(zip(names, tensors, strict=True)))
        outputs[:] = results
        # Two outputs that are one tensor would become one output.
        return [tf.identity(x, f"output_{i}") for i, x in enumerate(results.values())]

    traced = tf.function(call, input_signature=signature, autograph=False)
    traced.get_concrete_function()
    return traced, outputs


def save(function: Function, specs: Specs, folder: Path) -> None:
    """Write a SavedModel with the frozen function as ``serving_default``."""
    call, outputs = positional(function, specs)
    constant, module = frozen(call), tf.Module()

    def of_names(**inputs):
        return dict(zip(outputs, constant(*(inputs[x] for x in specs)), strict=True))

    module.call = traced = tf.function(of_names, autograph=False)
    signatures = {"serving_default": traced.get_concrete_function(**specs)}
    try:
        tf.saved_model.save(module, str(folder), signatures)
    except tf.errors.OpError as error:
        text = f"{folder} cannot be written: {first_line(error)}"
        raise SaveError(text) from error


def frozen(
    function: tf.types.experimental.PolymorphicFunction,
) -> Callable[..., list[tf.Tensor]]:
    """Return the function with constants instead of its variables.

    It can be called in other graphs, and has no gradients of its own.
    """
    constant = convert_variables_to_constants_v2(function.get_concrete_function())
    graph = constant.graph.as_graph_def()
    inner = (x.node_def for x in graph.library.function)
    for node in itertools.chain(graph.node, *inner):
        node.attr.pop("_gradient_op_type", None)  # which only this process knows
    inputs, outputs = ([x.name for x in y] for y in (constant.inputs, constant.outputs))

    def call(*tensors):
        feeds = dict(zip(inputs, tensors, strict=True))
        return tf.graph_util.import_graph_def(graph, feeds, outputs, name="")

    return call
