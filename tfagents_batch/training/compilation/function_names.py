"""Deterministic suffixes for traced function names.

TensorFlow ends a function's name in a number that counts everything that the process
has created so far. The name is part of the key of a compiled program in its cache. A
process that has also traced another program, or written a checkpoint, would count
further and miss the cache. So each kind of program starts at a fixed number.
"""

from __future__ import annotations

import contextlib

# Far above the numbers used before; counting this far takes about 10 ms.
PROGRAM = 100_000
EVALUATION = 200_000
SAMPLED = 300_000  # evaluation with sampled actions


def name_evaluation(sampled: bool) -> None:
    """Set the function names of the evaluation that is traced next.

    Args:
      sampled: whether actions are sampled; else they are the policy's mode.
    """
    begin_at(SAMPLED if sampled else EVALUATION)


def begin_at(number: int) -> None:
    """Make the next names end in this number or a greater one.

    Args:
      number: one of the constants above; ignored if the process is already past it.
    """
    # If this fails, programs are only compiled again.
    with contextlib.suppress(ImportError, AttributeError):
        from tensorflow.python.framework import ops

        while ops.uid() < number:
            pass
