"""Settings whose numbers are inputs of a program, not constants in it.

XLA compiles a constant into a program, but takes a variable as an input. So a run with
another learning rate, or with other steps of a schedule, uses the program that an
earlier run compiled.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tfagents_batch import config as configs
from tfagents_batch import schedules
from tfagents_batch.schedules import Schedule


class Inputs(tf.Module):
    """Settings of a config, with a variable for each field made by ``config.number``.

    A number is a ``tf.Variable``, f32 ``[]``, which operations accept like a tensor. A
    schedule is called with the step, as before. None and all other fields are
    unchanged.

    Args:
      config: frozen dataclass; nested ones with such fields are converted, too.

    Raises:
      UserError: for a schedule whose length is not known, see ``schedules.resolve``.
    """

    if TYPE_CHECKING:  # the attributes are the fields of the config

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, config: Any):
        super().__init__()
        for field in dataclasses.fields(config):
            value = getattr(config, field.name)
            if configs.is_number(field):
                value = _input(value)
            elif configs.has_numbers(value):
                value = Inputs(value)
            setattr(self, field.name, value)


class InputSchedule(tf.Module):
    """Schedule whose numbers are variables; satisfies ``schedules.Schedule``."""

    def __init__(self, schedule: Schedule):
        super().__init__()
        self._at, self._text = type(schedule).at, str(schedule)
        self._numbers = [_variable(x) for x in schedule.numbers()]

    def __call__(self, step: int | tf.Tensor) -> tf.Tensor:
        return self._at(step, *self._numbers)

    def __str__(self) -> str:
        return self._text


def _input(value: Any) -> Any:
    if value is None:
        return None
    return InputSchedule(value) if schedules.is_schedule(value) else _variable(value)


def _variable(value: Any) -> tf.Variable:
    """Return a variable of a number or a tuple of numbers: i64 if integer, else f32."""
    value = np.asarray(value)
    dtype = tf.int64 if value.dtype.kind == "i" else tf.float32
    return tf.Variable(value, trainable=False, dtype=dtype)
