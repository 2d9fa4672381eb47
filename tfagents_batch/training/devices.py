"""Which GPU TensorFlow is shown: the one that trains, or none."""

from __future__ import annotations

import tensorflow as tf


def claim(device: str) -> bool:
    """Let TensorFlow see the first GPU, or none, if it has not run an operation yet.

    By itself it takes nearly all memory of every GPU that it sees. Of the one that it
    is shown it takes what it needs, as it needs it. A program that uses a GPU for
    something else has run an operation before, or has chosen which ones TensorFlow
    sees, and is left alone.

    Args:
      device: "gpu" or "cpu", where updates run.

    Returns:
      False where it was too late, or others have chosen.
    """
    found = tf.config.list_physical_devices("GPU")
    if tf.config.get_visible_devices("GPU") != found:
        return False
    used = found[:1] if device == "gpu" else []
    try:
        for each in used:
            tf.config.experimental.set_memory_growth(each, True)
        if found:
            tf.config.set_visible_devices(used, "GPU")
    except (RuntimeError, ValueError):  # devices are made, or divided by others
        return False
    return True
