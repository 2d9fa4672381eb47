"""Functions that are traced again for each run, and whether TensorFlow has run one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tensorflow.python.eager import context


def anew(function: Callable) -> Callable:
    """Return a function for ``tf.function`` whose traces are counted alone.

    TensorFlow warns of retracing by the calls of all functions with the same code. Each
    run and each evaluation makes its own functions of the same code, and one that is
    short calls them a few times only. A partial object has no code.
    """
    alone: Any = functools.partial(function)
    alone.__name__ = function.__name__  # of the graph
    return alone


def has_run() -> bool:
    """Check if TensorFlow has created its devices; there is no public API for it.

    Its threads, for example, can only be set before.
    """
    return getattr(context.context(), "_context_handle", None) is not None
