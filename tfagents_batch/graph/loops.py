"""Loops and branches that also work when variables are tensors of a function.

Usually variables are assigned in place, and these are TensorFlow's own loops. When many
copies of a computation run at once (see ``use``), each has its own variables, as
tensors that go in and come out. Then a loop carries these tensors and runs for as many
rounds as any copy may need; a finished copy no longer changes. Results are the same.
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
    """Return the argument of ``use``; None if variables are assigned in place."""
    return getattr(_local, "carry", None)


@contextlib.contextmanager
def use(carry: Any) -> Iterator[None]:
    """Let loops and branches carry the values of variables.

    Args:
      carry: object with three methods. ``read()`` returns the values, a list of
        tensors; ``write(values)`` replaces them; ``holding(values)`` is a context that
        replaces them only inside it.
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
    name: str,
    most: int,
    count: int | tf.Tensor | None = None,
    go_on: Callable[[Nest], tf.Tensor] | None = None,
    pure: bool = False,
) -> Nest:
    """Repeat ``carry = body(index, carry)`` for index 0, 1, ... below ``count``.

    Args:
      body: function, which may assign variables.
      carry: nest of tensors or numbers.
      name: of the loop in profiles and in XLA's programs.
      most: upper bound of ``count``.
      count: int32 scalar, number of rounds; None for ``most``.
      go_on: function from the carry to bool ``[]``; false ends the loop.
      pure: True if the body assigns no variable.

    Returns:
      The last carry.
    """
    carry = nest.map(tf.convert_to_tensor, carry)

    def goes_on(index, carry):
        on = index < most if count is None else index < count
        return on if go_on is None else on & go_on(carry)

    variables = active()
    if variables is None:
        _, carry = tf.while_loop(
            goes_on,
            lambda index, carry: (index + 1, body(index, carry)),
            (0, carry),
            parallel_iterations=1,
            name=name,
        )
        return carry

    def step(index, values, carry):
        on = goes_on(index, carry)
        with contextlib.nullcontext() if pure else variables.holding(values):
            after = body(index, carry)
            assigned = values if pure else variables.read()
        return index + 1, *nest.where(on, (assigned, after), (values, carry))

    _, values, carry = tf.while_loop(
        lambda index, *_: index < most,
        step,
        (0, [] if pure else variables.read(), carry),
        parallel_iterations=1,
        name=name,
    )
    if not pure:
        variables.write(values)
    return carry


def when(condition: tf.Tensor, function: Callable[[], Nest], otherwise: Nest) -> Nest:
    """Return ``function()`` if the condition is true, else ``otherwise``.

    Args:
      condition: bool ``[]``.
      function: may assign variables; returns a nest like ``otherwise``.
      otherwise: result if the condition is false; then nothing is assigned.
    """
    variables = active()
    if variables is None:
        return tf.cond(condition, function, lambda: otherwise)
    before = variables.read()
    result = function()
    variables.write(nest.where(condition, variables.read(), before))
    return nest.where(condition, result, otherwise)
