"""The GPU that TensorFlow can see: the one for training, or none."""

from __future__ import annotations

import contextlib

import tensorflow as tf


def claim(device: str) -> None:
    """Let TensorFlow see the first GPU, or none, if it has not run an operation yet.

    By default TensorFlow takes nearly all memory of every visible GPU. Here it takes
    memory of one GPU as it needs it. Nothing is changed if an operation has run before
    or the visible GPUs are already chosen, as in a program that uses a GPU itself.

    Args:
      device: "gpu" or "cpu", the device of updates.
    """
    found = tf.config.list_physical_devices("GPU")
    if not found or tf.config.get_visible_devices("GPU") != found:
        return
    used = found[:1] if device == "gpu" else []
    # Errors mean that devices exist already, or have been divided.
    with contextlib.suppress(RuntimeError, ValueError):
        for each in used:
            tf.config.experimental.set_memory_growth(each, True)
        tf.config.set_visible_devices(used, "GPU")
