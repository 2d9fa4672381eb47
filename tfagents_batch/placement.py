"""Devices: where experience is collected, where updates run, and what is on the host.

No other module of the package chooses a device, except the operation of the native
backend, which exists on the CPU only.
"""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

import tensorflow as tf
from tensorflow.python.eager import context

from tfagents_batch.errors import UserError


def host() -> AbstractContextManager:
    """Return a context for variables and operations in the machine's memory."""
    return tf.device("/CPU:0")


def collecting() -> AbstractContextManager:
    """Return a context in which environments are stepped and experience is stored."""
    return tf.device("/CPU:0")


def updating(device: str) -> AbstractContextManager:
    """Return a context in which an algorithm updates; ``device`` is "cpu" or "gpu"."""
    return tf.device("/GPU:0" if device == "gpu" else "/CPU:0")


def current() -> AbstractContextManager:
    """Return a context with the device of this thread, to be entered in another one."""
    return tf.device(context.context().device_name)


def check(device: str) -> None:
    """Check that TensorFlow has a device.

    Raises:
      UserError: if it sees no GPU, but one is asked for.
    """
    if device == "gpu" and not tf.config.get_visible_devices("GPU"):
        raise UserError(
            "--device=gpu, but TensorFlow sees no GPU; use --device=cpu, or start a "
            "new process if this one has trained on the CPU"
        )


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
