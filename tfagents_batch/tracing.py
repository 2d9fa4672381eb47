"""Functions that are traced again for each run, on purpose."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def anew(function: Callable) -> Callable:
    """Return a function for ``tf.function`` whose traces are counted alone.

    TensorFlow warns of retracing by the calls of all functions with the same code. Each
    run and each evaluation makes its own functions of the same code, and one that is
    short calls them a few times only. A partial object has no code.
    """
    alone: Any = functools.partial(function)
    alone.__name__ = function.__name__  # of the graph
    return alone
