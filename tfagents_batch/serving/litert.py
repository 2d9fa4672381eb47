"""LiteRT (TensorFlow Lite), for phones and small devices."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.lite.python.convert_phase import ConverterError

from tfagents_batch.errors import UserError, first_line
from tfagents_batch.serving import functions
from tfagents_batch.serving.functions import Function, Run, Specs

NAME = "model.tflite"


def write(function: Function, specs: Specs, folder: Path) -> str:
    """Write the function as the signature ``serving_default``."""
    _interpreter()
    with tempfile.TemporaryDirectory() as scratch, _quiet():
        # Without frozen variables, the converter writes NaN instead of the weights.
        functions.save(function, specs, Path(scratch))
        converter = tf.lite.TFLiteConverter.from_saved_model(scratch)
        try:
            content = converter.convert()
        except ConverterError as error:
            raise UserError(_reason(error)) from error
    (folder / NAME).write_bytes(content)
    return NAME


def load(path: Path) -> Run:
    """Return the function of a file."""
    interpreter = _interpreter()(str(path))
    signature = interpreter.get_signature_runner("serving_default")
    return lambda inputs: signature(**inputs)


def _reason(error: Exception) -> str:
    """Return what LiteRT lacks, from the converter's pages of text."""
    operations = re.findall(r"^\s*(tf\.\w+\(.*)$", str(error), re.MULTILINE)
    lacks = "; ".join(dict.fromkeys(operations)) or first_line(error)
    return (
        f"LiteRT cannot express this policy, it lacks {lacks}; use the format onnx or "
        "saved_model"
    )


def _interpreter() -> Any:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise UserError(
            "the format litert needs ai-edge-litert, which is not installed; run pip "
            'install "tfagents_batch[export]"'
        ) from error
    return Interpreter


@contextlib.contextmanager
def _quiet():
    """Keep what the converter writes to stderr, in C++, to itself."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as null:
            os.dup2(null.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
