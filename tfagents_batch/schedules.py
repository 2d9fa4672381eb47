"""Schedules of numbers over a run.

A schedule is a frozen object: ``schedule(step)`` is its value, ``str(schedule)`` its
text, and ``parse`` reads that text.

    >>> parse("linear(3e-4, 0, 200000)")
    Linear(start=0.0003, end=0.0, steps=200000)
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import numbers
import re
from typing import TYPE_CHECKING, Any, Protocol

from tfagents_batch.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf

EXPECTED = (
    "a number, linear(start, end), linear(start, end, steps) or "
    "piecewise(0: value, step: value, ...)"
)


class Schedule(Protocol):
    """Number as a function of the step: Constant, Linear or Piecewise.

    A config's field annotated ``Schedule`` also accepts plain numbers and text;
    ``config.check`` converts them.
    """

    def __call__(self, step: int | tf.Tensor) -> tf.Tensor:
        """Return the f32 scalar at ``step`` (int, int32 or int64); works under XLA."""
        ...


@dataclasses.dataclass(frozen=True)
class Constant:
    """Schedule with the same value at every step."""

    value: float

    def __post_init__(self):
        _set(self, value=finite(self.value, "value"))

    def __call__(self, step: int | tf.Tensor) -> tf.Tensor:
        """Return the value, f32 scalar."""
        return self.at(step, *self.numbers())

    def numbers(self) -> tuple[float]:
        """Return the numbers that ``at`` takes."""
        return (self.value,)

    @staticmethod
    def at(step: int | tf.Tensor, value: Any) -> tf.Tensor:
        """Return the value, f32 scalar; the number may be a tensor."""
        import tensorflow as tf  # here, so that configs load without it

        del step
        return tf.convert_to_tensor(value, tf.float32)

    def __str__(self) -> str:
        return _text(self.value)


@dataclasses.dataclass(frozen=True)
class Linear:
    """Linear schedule from ``start`` at step 0 to ``end`` at ``steps``, then constant.

    Args:
      start, end: values.
      steps: length of the ramp; None means the whole run, see ``resolve``.
    """

    start: float
    end: float
    steps: int | None = None

    def __post_init__(self):
        _set(self, start=finite(self.start, "start"), end=finite(self.end, "end"))
        if self.steps is not None:
            _set(self, steps=whole(self.steps, "steps", least=1))

    def __call__(self, step: int | tf.Tensor) -> tf.Tensor:
        """Return (1 - x) start + x end, f32; x = step / steps, clipped to [0, 1]."""
        return self.at(step, *self.numbers())

    def numbers(self) -> tuple[float, float, int]:
        """Return the numbers that ``at`` takes.

        Raises:
          UserError: if the number of steps is not known yet.
        """
        if self.steps is None:
            raise UserError(
                f"{self} lasts for the whole run, but its length is not set; call "
                "schedules.resolve(config, total_steps), or pass steps"
            )
        return self.start, self.end, self.steps

    @staticmethod
    def at(step: int | tf.Tensor, start: Any, end: Any, steps: Any) -> tf.Tensor:
        """Return the value of ``__call__``; the numbers may be tensors."""
        import tensorflow as tf

        part = tf.cast(step, tf.float32) / tf.cast(steps, tf.float32)
        part = tf.clip_by_value(part, 0.0, 1.0)
        return (1.0 - part) * start + part * end

    def __str__(self) -> str:
        steps = "" if self.steps is None else f", {self.steps}"
        return f"linear({_text(self.start)}, {_text(self.end)}{steps})"


@dataclasses.dataclass(frozen=True)
class Piecewise:
    """Step function: the value of the last point that was reached.

    Args:
      points: pairs ``(step, value)``; steps increase from 0.
    """

    points: tuple[tuple[int, float], ...]

    def __post_init__(self):
        points = tuple(
            (whole(step, "step"), finite(value, "value")) for step, value in self.points
        )
        _set(self, points=points)
        steps = [step for step, _ in points]
        if not steps or steps[0] != 0 or steps != sorted(set(steps)):
            raise UserError(
                f"steps of piecewise are {steps}; expected increasing steps from 0"
            )

    def __call__(self, step: int | tf.Tensor) -> tf.Tensor:
        """Return the value, f32 scalar."""
        return self.at(step, *self.numbers())

    def numbers(self) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Return the numbers that ``at`` takes: all steps, and all values."""
        return tuple(zip(*self.points, strict=True))

    @staticmethod
    def at(step: int | tf.Tensor, steps: Any, values: Any) -> tf.Tensor:
        """Return the value of ``__call__``; the numbers may be tensors."""
        import tensorflow as tf

        steps = tf.convert_to_tensor(steps, tf.int64)
        reached = tf.cast(step, tf.int64) >= steps
        index = tf.reduce_sum(tf.cast(reached, tf.int32)) - 1  # step 0 is reached
        return tf.gather(tf.convert_to_tensor(values, tf.float32), index)

    def __str__(self) -> str:
        points = (f"{step}: {_text(value)}" for step, value in self.points)
        return f"piecewise({', '.join(points)})"


def is_schedule(value: Any) -> bool:
    """Return whether ``value`` is one of this module's schedules."""
    return isinstance(value, (Constant, Linear, Piecewise))


def parse(value: str | float | Schedule) -> Schedule:
    """Convert a text or a number to a schedule; schedules are returned unchanged.

    Raises:
      UserError: for anything else.
    """
    if is_schedule(value):
        return value
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return Constant(value)
    if callable(value):  # a run folder could not store it
        raise UserError(
            f"a schedule is no function of Python; expected {EXPECTED}; write "
            '"linear(3e-4, 0)" instead'
        )
    if not isinstance(value, str):
        raise UserError(f"{value!r} is not a schedule; expected {EXPECTED}")
    call = re.fullmatch(r"\s*(linear|piecewise)\s*\((.*)\)\s*", value)
    try:
        if not call:
            return Constant(_number(value))
        name, inside = call.groups()
        if name == "linear":
            return Linear(*map(_number, inside.split(",")))
        pairs = (point.split(":") for point in inside.split(","))
        return Piecewise(tuple((_number(step), _number(x)) for step, x in pairs))
    except UserError as error:
        raise UserError(f"{value!r}: {error}") from None
    except (ValueError, TypeError):
        raise UserError(f"{value!r} is not a schedule; expected {EXPECTED}") from None


def end(schedule: Schedule) -> Schedule:
    """Return the schedule that always has the last value of another one."""
    match schedule:
        case Linear():
            return Constant(schedule.end)
        case Piecewise():
            return Constant(schedule.points[-1][1])
    return schedule


def resolve(config: Any, total_steps: int) -> Any:
    """Set the length of the ``Linear`` schedules of a frozen dataclass.

    Those without steps get ``total_steps``, also in nested dataclasses.
    """
    changes = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Linear) and value.steps is None:
            changes[field.name] = dataclasses.replace(value, steps=total_steps)
        elif dataclasses.is_dataclass(value) and not is_schedule(value):
            changes[field.name] = resolve(value, total_steps)
    return dataclasses.replace(config, **changes)


def _set(schedule: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(schedule, name, value)  # the dataclass is frozen


def finite(value: Any, name: str) -> float:
    """Return a finite number as a float.

    Raises:
      UserError: for anything else; the message has ``name``.
    """
    if is_finite(value):
        return float(value)
    raise UserError(f"{name} is {value!r}; expected a finite number")


def is_finite(value: Any) -> bool:
    """Return whether a value is a finite number, which a bool is not."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):  # hundreds of digits
            return math.isfinite(value)
    return False


def whole(value: Any, name: str, least: int = 0) -> int:
    """Return a whole number of at least ``least`` as an int.

    Raises:
      UserError: for anything else; the message has ``name``.
    """
    number = finite(value, name)
    if number != int(number) or number < least:
        raise UserError(
            f"{name} is {value!r}; expected a whole number of at least {least}"
        )
    return int(value)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _text(value: float) -> str:
    """Return the shortest text that reads back as ``value``."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
