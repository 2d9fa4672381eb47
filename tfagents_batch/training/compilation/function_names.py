"""The numbers that TensorFlow's names of functions end in.

They count everything that the process has made before, and names are part of what a
compiled program is found by in its cache. So a process that has come further, because
it had to trace a program or to write a checkpoint, would not find the programs that it
traces afterwards, were they not to begin at numbers of their own.
"""

from __future__ import annotations

import contextlib

# Each far beyond what comes before; counting to one takes a hundredth of a second.
PROGRAM = 100_000
EVALUATION = 200_000
SAMPLED = 300_000  # the evaluation beside it


def name_evaluation(sampled: bool) -> None:
    """Give the functions of an evaluation, which is traced next, names of their own.

    Args:
      sampled: whether its actions are; else they are the policy's mode.
    """
    begin_at(SAMPLED if sampled else EVALUATION)


def begin_at(number: int) -> None:
    """Let the next names have this number or a greater one.

    Args:
      number: of the above; a process that has come further goes on where it is.
    """
    with contextlib.suppress(
        ImportError, AttributeError
    ):  # else programs compile again
        from tensorflow.python.framework import ops

        while ops.uid() < number:
            pass
