"""SavedModel, for TensorFlow and TensorFlow Serving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from tfagents_batch.serving.formats.functions import Function, Run, Specs

NAME = "saved_model"


def write(function: Function, specs: Specs, folder: Path) -> str:
    """Write the function as the signature ``serving_default``."""
    traced = tf.function(lambda **inputs: function(inputs), autograph=False)
    concrete = traced.get_concrete_function(**specs)
    module = tf.Module()
    module.captured = list(concrete.graph.variables)  # which are saved
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    signatures = {"serving_default": concrete}
    tf.saved_model.save(module, str(folder / NAME), signatures, options)
    return NAME


def load(path: Path) -> Run:
    """Return the function of a SavedModel."""
    module: Any = tf.saved_model.load(str(path))

    def run(inputs):
        # The signature does not keep its module alive.
        outputs = module.signatures["serving_default"](
            **{name: tf.constant(x) for name, x in inputs.items()}
        )
        return {name: x.numpy() for name, x in outputs.items()}

    return run
