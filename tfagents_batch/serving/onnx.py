"""ONNX, for ONNX Runtime in any language."""

from __future__ import annotations

import contextlib
import logging
import warnings
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfagents_batch.errors import UserError
from tfagents_batch.serving.functions import (
    Function,
    Run,
    Specs,
    frozen,
    positional,
)

NAME = "model.onnx"
OPSET = 18  # the newest that tf2onnx writes


def write(function: Function, specs: Specs, folder: Path) -> str:
    """Write the function; its inputs and outputs have the names of ``specs``."""
    onnx, tf2onnx = _packages()
    call, outputs = positional(function, specs)
    # Tensors that a layer created outside of its call would become inputs.
    constant = tf.function(
        frozen(call), input_signature=call.input_signature, autograph=False
    )
    with _quiet():
        model, _ = tf2onnx.convert.from_function(
            constant, input_signature=constant.input_signature, opset=OPSET
        )
    names = {x.name: name for x, name in zip(model.graph.input, specs, strict=True)}
    results = zip(model.graph.output, outputs, strict=True)
    names |= {x.name: name for x, name in results}
    _rename(model.graph, names)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(folder / NAME))
    return NAME


def load(path: Path) -> Run:
    """Return the function of a file."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    outputs = [x.name for x in session.get_outputs()]

    def run(inputs):
        return dict(zip(outputs, session.run(outputs, dict(inputs)), strict=True))

    return run


def _packages() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime  # noqa: F401
        import tf2onnx
    except ImportError as error:
        raise UserError(
            f"the format onnx needs {error.name}, which is not installed; run pip "
            'install "tfagents_batch[export]"'
        ) from error
    return onnx, tf2onnx


@contextlib.contextmanager
def _quiet():
    """Keep the notes of tf2onnx on its optimizers to itself."""
    logger = logging.getLogger("tf2onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _rename(graph: Any, names: dict[str, str]) -> None:
    """Rename tensors of a graph wherever they are used."""
    for tensor in (*graph.input, *graph.output, *graph.value_info):
        tensor.name = names.get(tensor.name, tensor.name)
    _rename_nodes(graph, names)


def _rename_nodes(graph: Any, names: dict[str, str]) -> None:
    for node in graph.node:
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename_nodes(inner, names)
