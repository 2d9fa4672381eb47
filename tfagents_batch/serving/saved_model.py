"""SavedModel, for TensorFlow and TensorFlow Serving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf

from tfagents_batch.serving import functions
from tfagents_batch.serving.functions import Function, Run, Specs

NAME = "saved_model"


def write(function: Function, specs: Specs, folder: Path) -> str:
    """Write the function as the signature ``serving_default``."""
    functions.save(function, specs, folder / NAME)
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
