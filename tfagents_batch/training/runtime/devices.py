"""Which GPU TensorFlow is shown: the one that trains, or none."""

from __future__ import annotations

import contextlib

import tensorflow as tf


def claim(device: str) -> None:
    """Let TensorFlow see the first GPU, or none, if it has not run an operation yet.

    By itself it takes nearly all memory of every GPU that it sees. Of the one that it
    is shown it takes what it needs, as it needs it. A program that uses a GPU for
    something else has run an operation before, or has chosen which ones TensorFlow
    sees, and is left alone.

    Args:
      device: "gpu" or "cpu", where updates run.
    """
    found = tf.config.list_physical_devices("GPU")
    if not found or tf.config.get_visible_devices("GPU") != found:
        return
    used = found[:1] if device == "gpu" else []
    # Errors: devices are made, or divided by others.
    with contextlib.suppress(RuntimeError, ValueError):
        for each in used:
            tf.config.experimental.set_memory_growth(each, True)
        tf.config.set_visible_devices(used, "GPU")
