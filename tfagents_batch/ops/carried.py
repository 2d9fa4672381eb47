"""Loops and branches that also work where variables are values in a function.

Usually variables are assigned where they stand, and these are TensorFlow's own loops.
Where many copies of a computation run at once, each with variables of its own, the
variables are tensors that go in and come out (see ``use``): there, a loop carries
them, runs for as many rounds as the longest copy may need, and a copy that is done
keeps what it has. Results are the same.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tfagents_batch import nest
from tfagents_batch.types import Nest

_local = threading.local()


def active() -> Any:
    """Return what ``use`` was given; None where variables are assigned in place."""
    return getattr(_local, "carry", None)


@contextlib.contextmanager
def use(carry: Any) -> Iterator[None]:
    """Let loops and branches carry the values of variables.

    Args:
      carry: whose ``read()`` returns the values, a list of tensors; ``write(values)``
        replaces them from here on; ``holding(values)`` is a context with values that
        are not seen outside of it.
    """
    before, _local.carry = active(), carry
    try:
        yield
    finally:
        _local.carry = before


def repeat(
    body: Callable[[tf.Tensor, Nest], Nest],
    carry: Nest,
    *,
    most: int,
    count: int | tf.Tensor | None = None,
    go_on: Callable[[Nest], tf.Tensor] | None = None,
    pure: bool = False,
) -> Nest:
    """``carry = body(index, carry)`` for index 0, 1, ... below ``count``.

    Args:
      body: may assign variables.
      carry: nest of tensors or numbers.
      most: rounds that there can be.
      count: int32 scalar, rounds; None for ``most``.
      go_on: reads bool ``[]`` off the carry; false ends the loop.
      pure: that the body assigns no variable.

    Returns:
      The last carry.
    """
    carry = nest.map(tf.convert_to_tensor, carry)

    def goes_on(index, carry):
        on = index < most if count is None else index < count
        return on if go_on is None else on & go_on(carry)

    keep = active()
    if keep is None:
        _, carry = tf.while_loop(
            goes_on,
            lambda index, carry: (index + 1, body(index, carry)),
            (0, carry),
            parallel_iterations=1,
        )
        return carry

    def step(index, values, carry):
        on = goes_on(index, carry)
        with contextlib.nullcontext() if pure else keep.holding(values):
            after = body(index, carry)
            held = values if pure else keep.read()
        return index + 1, *nest.where(on, (held, after), (values, carry))

    _, values, carry = tf.while_loop(
        lambda index, *_: index < most,
        step,
        (0, [] if pure else keep.read(), carry),
        parallel_iterations=1,
    )
    if not pure:
        keep.write(values)
    return carry


def when(
    condition: tf.Tensor, function: Callable[[], tf.Tensor], otherwise: tf.Tensor
) -> tf.Tensor:
    """``function()``, which may assign variables, where ``condition`` holds.

    Args:
      condition: bool ``[]``.
      function: returns a tensor like ``otherwise``.
      otherwise: the result where it does not hold; nothing is assigned then.
    """
    keep = active()
    if keep is None:
        return tf.cond(condition, function, lambda: otherwise)
    before = keep.read()
    result = function()
    keep.write(nest.where(condition, keep.read(), before))
    return tf.where(condition, result, otherwise)
