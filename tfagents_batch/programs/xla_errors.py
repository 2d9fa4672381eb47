"""Errors that end a compiled program: of an operation, or of the driver of a GPU."""

from __future__ import annotations

import re

import tensorflow as tf

from tfagents_batch.errors import UserError


def operation(error: BaseException) -> str | None:
    """Return the operation that XLA has no kernel for; None for other errors."""
    kinds = tf.errors.InvalidArgumentError, tf.errors.UnimplementedError
    if not isinstance(error, kinds):
        return None
    text = str(error)
    found = re.search(r"No registered '(\w+)' OpKernel for XLA", text)
    found = found or re.search(r"unsupported operations.*?: (\w+)", text, re.S)
    return found[1] if found else None


def refused(error: BaseException) -> str:
    """Return the operation that XLA has no kernel for; raise any other error.

    Raises:
      UserError: if a program of a GPU cannot step environments.
    """
    if name := operation(error):
        return name
    if failure := of_gpu(error):
        raise failure from None
    raise error


def of_gpu(error: BaseException) -> UserError | None:
    """Return the error of a GPU's program that cannot step environments, if it is."""
    found = re.search(r"tfab:cuda:\d+: ([^\n]*)", str(error))
    if not found:
        return None
    return UserError(f"{found[1]}; use --compile=update, which steps them from the CPU")


def user_error(setting: str, mode: str, name: str, instead: str) -> UserError:
    """Return the error that names the operation, and what to do."""
    return UserError(
        f"{setting}={mode}: XLA cannot compile {name}; use {instead}, or another "
        "operation in the network"
    )
